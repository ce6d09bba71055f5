//! NVIDIA's assembler and disassembler: fetched once, with a cache of their results under
//! `target/`.
use koel_simt::Image;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The programs.
pub(crate) struct Tools {
    pub ptxas: PathBuf,
    pub nvdisasm: PathBuf,
    /// Folder of assembled code.
    cache: PathBuf,
}

/// The first disassembler on PyPI is that of CUDA 13.2.
const WHEELS: [&str; 4] = [
    "nvidia-cuda-nvcc==13.0.*",
    "nvidia-nvvm==13.0.*",
    "nvidia-cuda-crt==13.0.*",
    "nvidia-cuda-nvdisasm>=13.2",
];

impl Tools {
    /// Returns the programs that PTXAS and NVDISASM name, or those from PyPI. The committed machine
    /// code is that of CUDA 13.0, the last that assembles for sm_75.
    pub(crate) fn new(root: &Path) -> Result<Tools, String> {
        let cache = root.join("target/machine-code");
        if let (Some(ptxas), Some(nvdisasm)) =
            (std::env::var_os("PTXAS"), std::env::var_os("NVDISASM"))
        {
            return Ok(Tools { ptxas: ptxas.into(), nvdisasm: nvdisasm.into(), cache });
        }
        let folder = root.join("target/nvcc");
        let bin = folder.join("nvidia/cu13/bin");
        let tools = Tools { ptxas: bin.join("ptxas"), nvdisasm: bin.join("nvdisasm"), cache };
        let exist = || tools.ptxas.exists() && tools.nvdisasm.exists();
        if !exist() {
            eprintln!(
                "fetching ptxas and nvdisasm from PyPI into {}: {}",
                folder.display(),
                WHEELS.join(" ")
            );
            let status = Command::new("python3")
                .args(["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target"])
                .arg(&folder)
                .args(WHEELS)
                .status()
                .map_err(|e| {
                    format!(
                        "python3: {e}; install it, or name ptxas and nvdisasm in PTXAS and NVDISASM"
                    )
                })?;
            if !status.success() || !exist() {
                return Err(
                    "pip did not fetch ptxas and nvdisasm: name them in PTXAS and NVDISASM".into(),
                );
            }
        }
        Ok(tools)
    }
    /// Returns the cubin of a PTX text for a target such as `sm_90`, with its path. The messages of
    /// ptxas are stored next to it.
    ///
    /// ptxas writes its arguments into the cubin, so they are always the same: the same file names,
    /// in a separate folder.
    pub(crate) fn assemble(&self, ptx: &str, target: &str) -> Result<Assembled, String> {
        let say = |path: &Path| format!("{}: ", path.display());
        let tool = std::fs::metadata(&self.ptxas)
            .map_err(|e| say(&self.ptxas) + &e.to_string())?
            .len()
            .to_string();
        let folder = self.cache.join(format!("{:016x}-{target}", Image::checksum([&*tool, ptx])));
        let (cubin, log) = (folder.join("kernels.cubin"), folder.join("ptxas.log"));
        if !log.exists() {
            std::fs::create_dir_all(&folder).map_err(|e| say(&folder) + &e.to_string())?;
            std::fs::write(folder.join("kernels.ptx"), ptx)
                .map_err(|e| say(&folder) + &e.to_string())?;
            let ptxas =
                std::path::absolute(&self.ptxas).map_err(|e| say(&self.ptxas) + &e.to_string())?;
            let out = Command::new(ptxas)
                .args(["-v", &format!("-arch={target}"), "-o", "kernels.cubin", "kernels.ptx"])
                .current_dir(&folder)
                .output()
                .map_err(|e| say(&self.ptxas) + &e.to_string())?;
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            if !out.status.success() {
                return Err(format!("ptxas for {target}: {said}"));
            }
            std::fs::write(&log, said).map_err(|e| say(&log) + &e.to_string())?;
        }
        let log = std::fs::read_to_string(&log).map_err(|e| say(&log) + &e.to_string())?;
        Ok(Assembled { cubin, log })
    }
}

/// Output of ptxas.
pub(crate) struct Assembled {
    pub cubin: PathBuf,
    /// Registers and spills of each kernel.
    pub log: String,
}

/// Maps items in parallel, with one thread per processor. Results are in the order of the items.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, String> + Sync,
) -> Result<Vec<R>, String> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                while let Some((i, item)) =
                    Some(next.fetch_add(1, Relaxed)).and_then(|i| Some((i, items.get(i)?)))
                {
                    let result = work(item);
                    done.lock().unwrap_or_else(|e| e.into_inner()).push((i, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_by_key(|(i, _)| *i);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items = (0..100).collect::<Vec<_>>();
        assert_eq!(in_parallel(&items, |i| Ok(i * 2)), Ok(items.iter().map(|i| i * 2).collect()));
        assert_eq!(
            in_parallel(&items, |i| if *i == 7 { Err("seven".into()) } else { Ok(()) }),
            Err("seven".into())
        );
    }
}
