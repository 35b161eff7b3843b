//! A component's settings, from flags, environment and file, read once at start with all mistakes reported together.
//!
//! Called by each command in `cli`. Every source gives text under the flag's name, so one parser per setting serves all
//! three: `--cluster-cidr`, `TWINSTACK_PROXY_CLUSTER_CIDR` and the file's key `cluster-cidr` mean the same and are
//! checked the same. The flag wins over the environment, the environment over the file, the file over the default.
//!
//! ```
//! # use runtime::config::{Mistakes, Settings};
//! struct Dns { port: u16, zone: String }
//!
//! fn read(settings: Settings) -> Result<Dns, Mistakes> {
//!     settings.read(|given| {
//!         let port = given.or("port", 53, "a port from 0 to 65535", str::parse::<u16>);
//!         let zone = given.required("zone", "a domain name", |text| Ok::<_, String>(text.to_owned()));
//!         Some(Dns { port, zone: zone? })
//!     })
//! }
//!
//! let flags = [("zone".to_owned(), "cluster.local".to_owned())];
//! let dns = read(Settings::new("dns").flags(flags))?;
//! assert_eq!((dns.port, dns.zone.as_str()), (53, "cluster.local"));
//! # Ok::<(), Mistakes>(())
//! ```

mod file;
mod mistakes;
mod settings;

pub use mistakes::{Mistake, Mistakes, Place};
pub use settings::Settings;
