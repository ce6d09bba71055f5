//! Planted faults: each must be caught by the host tests.
use std::path::Path;
use std::process::Command;

/// mutants.txt: blocks of `name`, `file`, `- old`, `+ new` lines. Each is applied alone to a copy of the sources.
pub fn mutants(root: &Path) -> Result<(), String> {
    let list = std::fs::read_to_string(root.join("mutants.txt")).map_err(|e| e.to_string())?;
    let copy = std::env::temp_dir().join("simt-mutants");
    let sh = |c: &str| Command::new("sh").arg("-c").arg(c).status().map_err(|e| e.to_string()).map(|_| ());
    let mut survivors = vec![];
    for m in list.split("\n\n").filter(|m| !m.trim().is_empty() && !m.starts_with('#')) {
        let mut lines = m.lines();
        let (name, file) = (lines.next().unwrap(), lines.next().ok_or("mutants.txt: no file")?);
        let (old, new): (Vec<_>, Vec<_>) = lines.partition(|l| l.starts_with('-'));
        let text = |ls: Vec<&str>| ls.iter().map(|l| l.get(2..).unwrap_or("")).collect::<Vec<_>>().join("\n");
        let (old, new) = (text(old), text(new));
        sh(&format!(
            "mkdir -p {0} && rsync -a --exclude target {1}/ {0}/ 2>/dev/null || cp -r {1}/. {0}/",
            copy.display(),
            root.display()
        ))?;
        let path = copy.join(file);
        let source = std::fs::read_to_string(&path).map_err(|e| e.to_string())?;
        if source.matches(&old).count() != 1 {
            return Err(format!("mutant `{name}`: {} places match", source.matches(&old).count()));
        }
        std::fs::write(&path, source.replace(&old, &new)).map_err(|e| e.to_string())?;
        let out = Command::new("cargo")
            .args(["test", "--release", "-q", "-p", "kernels", "--test", "host"])
            .current_dir(&copy)
            .env("CARGO_TARGET_DIR", std::env::temp_dir().join("simt-mutants-target"))
            .output()
            .map_err(|e| e.to_string())?;
        let log = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        let said = log
            .lines()
            .find(|l| l.contains("in kernel `") || l.contains("error") || l.contains("assertion") || l.contains("partition lost"));
        match (out.status.success(), said) {
            (true, _) => {
                println!("SURVIVED {name}");
                survivors.push(name.to_string());
            }
            (false, said) => println!("caught   {name}\n         {}", said.unwrap_or("?").trim()),
        }
    }
    let _ = std::fs::remove_dir_all(&copy);
    if survivors.is_empty() { Ok(()) } else { Err(format!("survived: {}", survivors.join(", "))) }
}
