//! Plans of an epoch, and the samples of a rank.

use super::work::{SEED, Work};
use forebay_loader::Result;
use forebay_loader::order::{
    DataSetShape, EpochPlan, OrderConfig, PackBatch, PackConfig, PackPlan, Rank, ShuffleAlgo, TokenLengths, World,
};
use forebay_tests::data::Draws;
use std::hint::black_box;
use std::sync::Arc;

pub(super) fn py1e() -> Result<Work> {
    shuffled(ShuffleAlgo::Py1e)
}

pub(super) fn py1br() -> Result<Work> {
    shuffled(ShuffleAlgo::Py1br)
}

/// Plans an epoch and reads all its batches.
fn shuffled(algo: ShuffleAlgo) -> Result<Work> {
    let shape = DataSetShape::new(&[vec![1_000; 100], vec![777; 30]])?;
    let config = OrderConfig {
        shuffle: true,
        shuffle_algo: algo,
        batch_size: 64,
        shuffle_block_size: Some(20_000),
        ..OrderConfig::default()
    };
    let mut rows = Vec::new();
    Ok(Box::new(move |epoch| {
        let plan = EpochPlan::new(&shape, &config, World::single(), epoch, None)?;
        let mut order = plan.rank(Rank(0));
        while order.next_batch(&mut rows) {
            black_box(&rows);
        }
        Ok(())
    }))
}

/// Plans the packs of an epoch and reads some of them.
pub(super) fn packs() -> Result<Work> {
    const DOCUMENTS: u64 = 50_000;
    let mut draws = Draws::new(SEED, 0);
    let lengths = (0..DOCUMENTS).map(|_| 1 + (draws.unit().powi(3) * 4_000.0) as u32).collect();
    let lengths = [Arc::new(TokenLengths::new(lengths))];
    let shape = DataSetShape::new(&[vec![DOCUMENTS / 10; 10]])?;
    let config = OrderConfig { shuffle: true, batch_size: 8, ..OrderConfig::default() };
    let packing = PackConfig { window: Some(8_192), ..PackConfig::new(2_048) };
    let mut batch = PackBatch::default();
    Ok(Box::new(move |epoch| {
        let plan = PackPlan::new(&shape, &config, (&packing, &lengths), World::single(), epoch, None, None, 1)?;
        let mut packs = plan.rank(Rank(0));
        for _ in 0..100 {
            packs.next_batch(&mut batch)?;
            black_box(&batch);
        }
        Ok(())
    }))
}
