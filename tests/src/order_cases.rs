//! Cases for the order: arguments as JSON, and the resulting plan in the form of the recorded reference answers. Shared
//! by the suite `order` and the binary `order_oracle`.

use forebay_loader::order::{DataSetShape, EpochPlan, OrderConfig, OrderError, Rank, Resume, Weight, World};
use serde_json::{Value, json};

/// Arguments of a plan.
pub struct Case {
    /// Samples of each shard of each stream.
    pub streams: Vec<Vec<u64>>,
    /// Configuration of the order.
    pub config: OrderConfig,
    /// Nodes, ranks and workers.
    pub world: World,
    /// Number of the next epoch.
    pub epoch: u64,
    /// The checkpoint.
    pub resume: Option<Resume>,
}

impl Case {
    /// Parses a case written by `tests/oracle/order_cases.py`.
    ///
    /// # Errors
    ///
    /// Names the field that is missing or has the wrong type.
    pub fn parse(case: &Value) -> Result<Self, String> {
        let field = |name: &str| case.get(name).ok_or_else(|| format!("no {name}"));
        let number = |name: &str| field(name)?.as_u64().ok_or_else(|| format!("{name} is not a number"));
        let optional = |name: &str| Ok::<_, String>(field(name)?.as_u64());
        let text = |name: &str| field(name)?.as_str().ok_or_else(|| format!("{name} is not a text"));
        let bad = |error: OrderError| error.to_string();

        let streams = serde_json::from_value(field("streams")?.clone()).map_err(|e| e.to_string())?;
        let weights = field("weights")?.as_array().ok_or("weights is not a list")?;
        let config = OrderConfig {
            shuffle: field("shuffle")?.as_bool().ok_or("shuffle is not a boolean")?,
            shuffle_algo: text("algo")?.parse().map_err(bad)?,
            shuffle_seed: number("seed")?,
            shuffle_block_size: optional("block")?,
            partition_algo: text("partition")?.parse().map_err(bad)?,
            num_canonical_nodes: optional("canonical")?,
            batch_size: number("batch")?,
            sampling_method: text("sampling")?.parse().map_err(bad)?,
            sampling_granularity: number("granularity")?,
            batching_method: text("batching")?.parse().map_err(bad)?,
            replication: optional("replication")?.map(|n| n as u32),
            epoch_size: optional("epoch_size")?,
            weights: weights.iter().map(weight).collect::<Result<_, _>>()?,
            equal_ranks: false,
            ..OrderConfig::default()
        };
        let world = World {
            nodes: number("nodes")? as u32,
            ranks_per_node: number("ranks")? as u32,
            workers_per_rank: number("workers")? as u32,
        };
        let resume = match field("resume")? {
            Value::Null => None,
            state => {
                let number = |name: &str| state.get(name).and_then(Value::as_u64);
                Some(Resume {
                    epoch: number("epoch").ok_or("no epoch")?,
                    sample_in_epoch: number("sample_in_epoch").ok_or("no sample_in_epoch")?,
                    num_canonical_nodes: number("num_canonical_nodes").ok_or("no num_canonical_nodes")?,
                    shuffle_seed: number("shuffle_seed").ok_or("no shuffle_seed")?,
                    initial_physical_nodes: number("initial_physical_nodes"),
                })
            }
        };
        Ok(Self { streams, config, world, epoch: number("epoch")?, resume })
    }

    /// Makes the plan.
    ///
    /// # Errors
    ///
    /// Errors of the plan.
    pub fn plan(&self) -> Result<EpochPlan, OrderError> {
        let shape = DataSetShape::new(&self.streams)?;
        EpochPlan::new(&shape, &self.config, self.world, self.epoch, self.resume.as_ref())
    }

    /// Returns the shape (nodes, ranks, workers, batches, batch) and a hash of all ids, or the error's name.
    pub fn answer(&self) -> Value {
        let plan = match self.plan() {
            Ok(plan) => plan,
            Err(error) => return json!({ "error": error_name(&error), "message": error.to_string() }),
        };
        // A plan accepts more checkpoints than the reference; the suite's `tail` tests those.
        if let Err(error) = plan.reject_as_reference() {
            return json!({ "error": error_name(&error), "message": error.to_string() });
        }
        let world = plan.parallel_world();
        let replication = self.config.replication.unwrap_or(1);
        let mut hash = IdHash::default();
        let mut batches = 0;
        for rank in 0..world.ranks() as u32 {
            for worker in 0..world.workers_per_rank {
                let ids = plan.worker(Rank(rank * replication), worker);
                batches = ids.len() as u64 / plan.batch_size();
                ids.for_each(|id| hash.push(id));
            }
        }
        let shape = [
            u64::from(world.nodes),
            u64::from(world.ranks_per_node),
            u64::from(world.workers_per_rank),
            batches,
            plan.batch_size(),
        ];
        json!({ "shape": shape, "hash": format!("{:016x}", hash.0) })
    }

    /// Returns all ids, to show the difference of a failed case.
    ///
    /// # Errors
    ///
    /// Errors of the plan.
    pub fn ids(&self) -> Result<Vec<i64>, OrderError> {
        let plan = self.plan()?;
        let world = plan.parallel_world();
        let replication = self.config.replication.unwrap_or(1);
        let workers = (0..world.ranks() as u32)
            .flat_map(|rank| (0..world.workers_per_rank).map(move |worker| (Rank(rank * replication), worker)));
        Ok(workers.flat_map(|(rank, worker)| plan.worker(rank, worker)).collect())
    }
}

fn weight(weight: &Value) -> Result<Weight, String> {
    if weight.is_null() {
        return Ok(Weight::Unset);
    }
    let kind = weight.get(0).and_then(Value::as_str);
    // A double is written as its bits, since parsers of decimal fractions may differ in the last digit.
    let number = weight.get(1).and_then(Value::as_u64).ok_or("a weight without a number")?;
    match kind {
        Some("proportion") => Ok(Weight::Proportion(f64::from_bits(number))),
        Some("repeat") => Ok(Weight::Repeat(f64::from_bits(number))),
        Some("choose") => Ok(Weight::Choose(number)),
        _ => Err(format!("a weight of kind {kind:?}")),
    }
}

/// Returns the name of the variant.
fn error_name(error: &OrderError) -> String {
    let text = format!("{error:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

/// Hash of ids: sum of (id + 2) times powers of an odd number, modulo 2^64, which numpy computes quickly as well.
struct IdHash(u64, u64);

impl Default for IdHash {
    fn default() -> Self {
        Self(0, 1)
    }
}

impl IdHash {
    fn push(&mut self, id: i64) {
        self.1 = self.1.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = self.0.wrapping_add((id as u64).wrapping_add(2).wrapping_mul(self.1));
    }
}
