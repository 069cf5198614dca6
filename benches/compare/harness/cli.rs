//! What the comparison is told.

use std::path::PathBuf;

use clap::Parser;

/// parkd beside what its users would pick instead.
#[derive(Parser, Clone, Debug)]
#[command(name = "compare")]
pub struct Orders {
    /// A few cells, in less than a minute
    #[arg(long)]
    pub quick: bool,
    /// Write the record to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw latency against CPU into this SVG file
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Only this contender (any number of times)
    #[arg(long = "contender", value_name = "NAME")]
    pub contenders: Vec<String>,
    /// Only this workload: `steady`, or `steady/1000` for its 1 ms alone; `throughput` and `scale`
    /// are workloads too (any number of times)
    #[arg(long = "workload", value_name = "NAME")]
    pub workloads: Vec<String>,
    /// How long all runs may take together
    #[arg(long, value_name = "N")]
    pub seconds: Option<u64>,
}

impl Orders {
    /// Whether a workload of its own kind is wanted: not where somebody asks for a part.
    pub fn wants(&self, name: &str) -> bool {
        let whole = self.contenders.is_empty() && self.workloads.is_empty();
        whole || self.workloads.iter().any(|wanted| wanted == name)
    }
}
