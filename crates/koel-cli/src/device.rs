//! `--device` and `--threads`.
use crate::failure::{Failure, Outcome};
use crate::output;
use koel::{Device, DeviceKind};
use std::str::FromStr;

/// Value of `--device`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DeviceChoice {
    /// A GPU if there is one, else the CPU.
    Auto,
    Cpu,
    /// The GPU with this number.
    Cuda(usize),
}
impl FromStr for DeviceChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<DeviceChoice, String> {
        match text {
            "auto" => Ok(DeviceChoice::Auto),
            "cpu" => Ok(DeviceChoice::Cpu),
            "cuda" => Ok(DeviceChoice::Cuda(0)),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|n| n.parse().ok())
                .map(DeviceChoice::Cuda)
                .ok_or_else(|| "expected auto, cpu, cuda or cuda:N".into()),
        }
    }
}

/// Sets the size of rayon's global thread pool to `--threads`.
pub(crate) fn use_threads(threads: Option<u16>) -> Outcome {
    let Some(threads) = threads else { return Ok(()) };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into());
    pool.build_global().map_err(|e| Failure::Other(format!("--threads {threads}: {e}")))
}

/// An open device.
pub(crate) struct Opened {
    pub device: Device,
    /// Why the CPU, or a GPU other than the first, is used, if the first GPU was wanted.
    #[cfg_attr(not(feature = "bench"), allow(dead_code, reason = "only benchmarks need it"))]
    pub fallback: Option<String>,
}

/// Opens the device. Prints a message if another than the first GPU is used instead of that.
pub(crate) fn open(choice: DeviceChoice, threads: Option<u16>) -> Outcome<Opened> {
    let mut fallback = None;
    let device = match choice {
        DeviceChoice::Cpu => cpu(threads)?,
        DeviceChoice::Cuda(ordinal) => Device::cuda(ordinal)?,
        DeviceChoice::Auto => {
            let best = Device::best()?;
            fallback = best.fallback_reason().map(str::to_owned);
            let (used, device) = match best.kind() {
                DeviceKind::Cpu => ("the CPU".into(), cpu(threads)?),
                _ => (best.name(), best),
            };
            if let Some(reason) = &fallback {
                output::say(format_args!("{reason}: using {used}"));
            }
            device
        }
    };
    Ok(Opened { device, fallback })
}

/// Opens the CPU with this number of threads.
pub(crate) fn cpu(threads: Option<u16>) -> Outcome<Device> {
    Ok(match threads {
        Some(threads) => Device::cpu_with_threads(threads.into())?,
        None => Device::cpu()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named() {
        for (text, choice) in [
            ("auto", DeviceChoice::Auto),
            ("cpu", DeviceChoice::Cpu),
            ("cuda", DeviceChoice::Cuda(0)),
            ("cuda:3", DeviceChoice::Cuda(3)),
        ] {
            assert_eq!(text.parse(), Ok(choice));
        }
        for text in ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "CPU"] {
            assert!(text.parse::<DeviceChoice>().is_err(), "{text}");
        }
    }
}
