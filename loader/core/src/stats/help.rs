//! Descriptions of the figures, as Prometheus shows them: as on the page "Metrics".

/// Description of each counter by its name.
const COUNTERS: &[(&str, &str)] = &[
    ("store_requests", "requests to the store"),
    ("store_bytes", "bytes from the store"),
    ("store_retries", "attempts after a failed one"),
    ("store_throttled", "requests that the store refused as too many (429, 503)"),
    ("store_connections", "connections opened"),
    ("store_hedges", "second requests for parts of a shard that were far slower than most"),
    ("store_hedge_bytes", "bytes that these received, at most a twentieth of store_bytes"),
    ("cache_published", "shards made visible in the local folder"),
    ("cache_published_bytes", "their bytes"),
    ("cache_evicted", "shards removed to make room"),
    ("cache_evicted_bytes", "their bytes"),
    ("cache_lost_races", "shards that another process had published first"),
    ("reads_bytes", "bytes of samples that decode threads did not find in the page cache"),
    ("reads_page_cache", "samples read from the page cache by the read thread"),
    ("reads_direct", "reads from disk with O_DIRECT"),
    ("reads_buffered", "reads from disk through the page cache"),
    ("reads_continued", "reads that returned a part, and were continued"),
    ("shards_opening_us", "microseconds of threads that opened shards or waited for it, summed over threads"),
    ("shard_indexes_read", "shards with a row index that was read"),
    ("shard_indexes_refused", "shards with a row index that is damaged or of a different version"),
    ("row_indexes_used", "JPEGs decoded with a row index"),
    ("row_indexes_refused", "JPEGs with a row index that does not belong to the file"),
    ("wait_shards_us", "microseconds of the loop's waits in which samples waited for their shards"),
    ("fetching_us", "microseconds in which at least one shard was fetched"),
    ("map_cpu_us", "microseconds of CPU time of the function of map, in threads of this process"),
    ("map_cpu_delay_us", "microseconds in which the threads of map waited for a CPU, where the system counts it"),
    ("filter_shards_read", "shards with columns that were read for a filter, weights, or lengths in tokens"),
    ("filter_shards_skipped", "shards that a filter did not read: the statistics in their Parquet file had the answer"),
    ("samples_skipped", "samples left out by skip.errors"),
    ("samples_unpooled", "samples larger than a read slot, which needed their own memory"),
    ("steps_left_out", "batches that skip_steps left out"),
    ("batches_refilled", "batches that lost every sample and repeat one"),
    ("batches_unpooled", "batches that needed memory beyond the pool, because the program keeps batches"),
    ("pictures_damaged", "damaged JPEGs decoded with tolerant=True"),
    ("pictures_scaled", "JPEGs decoded at a reduced size with scaled_decode=True"),
    ("decodes_shared", "pictures cut from the decoded pixels of an earlier view or field of the same file"),
    ("picture_pixels", "pixels of the pictures that the host decoded, as they are stored"),
    ("picture_pixels_delivered", "pixels of these pictures in batches, after crops and resizes"),
    ("pictures_on_device", "pictures decoded by the device"),
    ("pictures_on_engines", "of these, by nvJPEG's engines"),
    ("pictures_not_for_device", "pictures decoded by the host because the device cannot"),
    ("pictures_refused", "pictures that the device rejected, decoded by the host"),
    ("pictures_shared", "pictures that decode threads took from the device (share_decode)"),
    ("device_decode_fallbacks", "times that decoding fell back from the device, or from one of its backends"),
    ("rows_copied_early", "array rows copied to the device from the memory they were read to"),
    ("rows_gpu_direct", "rows read by cuFile"),
    ("rows_gpu_direct_refused", "rows that cuFile rejected, read by the host"),
    ("gpu_direct_storage_fallbacks", "times that reading fell back from cuFile"),
];

/// Returns the description of a counter; one that has none is described by its name.
pub(super) fn of_counter(name: &str) -> String {
    COUNTERS
        .iter()
        .find(|(known, _)| *known == name)
        .map_or_else(|| name.replace('_', " "), |(_, text)| (*text).to_owned())
}
