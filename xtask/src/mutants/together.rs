//! All faults in one build, each behind a switch.
use super::list::Mutant;
use super::roots::{normal, roots_of_files};
use super::run::{self, TestResult};
use super::switch::{Change, MODULE, Switched, switch};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// Maximum number of builds, each without the faults that broke the previous ones.
const MAX_BUILDS: usize = 8;

/// Test programs that contain the faults, and the faults that they do not contain.
pub(super) struct Together<'a> {
    /// Faults that must be planted alone, and why.
    pub alone: BTreeMap<u32, String>,
    copy: &'a Path,
    build: &'a Path,
    /// Original texts of the sources that have switches.
    originals: HashMap<String, String>,
    /// `-p NAME` of all packages.
    packages: Vec<String>,
    programs: Vec<Program>,
    /// Result of each command without a fault, once it has been needed.
    without: RefCell<HashMap<&'a [&'a str], TestResult>>,
}
impl<'a> Together<'a> {
    /// Builds the test programs of these mutants, in a copy of the sources. A mutant's number must
    /// not be 0.
    pub(super) fn build(
        root: &'a Path,
        copy: &'a Path,
        build: &'a Path,
        mutants: &[(u32, &'a Mutant<'a>)],
    ) -> Result<Together<'a>, String> {
        let mut sources = Sources::of(root, mutants)?;
        let mut tests = vec![];
        for (number, m) in mutants {
            match Tests::parse(&m.tests) {
                Some(of_mutant) => tests.push(of_mutant),
                None => {
                    let why = "its tests are not `-p PACKAGE` and one of --lib, --bin, --test";
                    sources.alone.insert(*number, why.to_string());
                }
            }
        }
        let (packages, targets) = arguments_for(&tests);
        let mut built = None;
        for _ in 0..MAX_BUILDS {
            let texts = sources.texts()?;
            super::copy_sources(root, copy, &texts.files)?;
            let out = TestBuild::of(copy, build, &[&packages[..], &targets].concat())?;
            if out.is_complete {
                built = Some((out, texts.files));
                break;
            }
            let blamed = texts.blamed(&out.messages);
            if blamed.is_empty() {
                return Err(format!("the build of all faults failed:\n{}", out.errors()));
            }
            println!("the build of all faults failed: {} of them are planted alone", blamed.len());
            sources.alone.extend(blamed);
        }
        let failed = || format!("the build of all faults failed {MAX_BUILDS} times");
        let (built, files) = built.ok_or_else(failed)?;
        let original = |file: String| Ok((file.clone(), super::read(&root.join(file))?));
        let originals = files.into_keys().map(original).collect::<Result<_, String>>()?;
        let (programs, alone, without) = (built.programs(), sources.alone, RefCell::default());
        let all = Together { alone, copy, build, originals, packages, programs, without };
        // Faults that are planted alone replace the programs.
        for (_, m) in mutants.iter().filter(|(number, _)| all.alone.contains_key(number)) {
            all.run_without(m)?;
        }
        Ok(all)
    }
    /// Runs the tests of a mutant, switched on, or planted alone if necessary. Tests that do not
    /// pass without the fault are not run: they would have no verdict.
    pub(super) fn test(&self, number: u32, m: &'a Mutant<'a>) -> Result<TestResult, String> {
        let no_verdict = |why: String| Ok(TestResult::NoVerdict(why));
        match self.run_without(m)? {
            Some(TestResult::Failed(said)) => no_verdict(format!("fails without a fault: {said}")),
            Some(TestResult::NoVerdict(said)) => no_verdict(format!("without a fault: {said}")),
            _ if self.alone.contains_key(&number) => self.test_alone(m),
            _ => run_program(&self.programs, m, Some(number)).map(caught_by_signal),
        }
    }
    /// Plants a fault in sources without switches. Only what depends on it is rebuilt.
    fn test_alone(&self, m: &Mutant) -> Result<TestResult, String> {
        for (file, text) in &self.originals {
            super::write_if_other(&self.copy.join(file), text)?;
        }
        let path = self.copy.join(m.file);
        let source = super::read(&path)?;
        super::write(&path, &source.replace(&m.old, &m.new))?;
        let outcome = self.run_alone(m);
        super::write(&path, &source)?;
        outcome
    }
    fn run_alone(&self, m: &Mutant) -> Result<TestResult, String> {
        let Some(tests) = Tests::parse(&m.tests) else {
            return run::by_cargo(self.copy, self.build, &m.tests);
        };
        let (_, targets) = arguments_for(&[tests]);
        let built = TestBuild::of(self.copy, self.build, &[&self.packages[..], &targets].concat())?;
        if !built.is_complete {
            let errors = built.errors();
            let first = errors.lines().next().unwrap_or("the build failed");
            return Ok(TestResult::NoVerdict(first.to_string()));
        }
        run_program(&built.programs(), m, None)
    }
    /// Returns the outcome of the tests of a mutant without a fault; `None` if they must be run by
    /// cargo.
    fn run_without(&self, m: &'a Mutant<'a>) -> Result<Option<TestResult>, String> {
        if Tests::parse(&m.tests).is_none() {
            return Ok(None);
        }
        if let Some(outcome) = self.without.borrow().get(&m.tests[..]) {
            return Ok(Some(outcome.clone()));
        }
        let outcome = run_program(&self.programs, m, None)?;
        if outcome != TestResult::Passed {
            println!("without a fault: {}\n         {outcome:?}", m.tests.join(" "));
        }
        self.without.borrow_mut().insert(&m.tests, outcome.clone());
        Ok(Some(outcome))
    }
}

/// Counts death by a signal as caught: the same program passes without the fault.
fn caught_by_signal(outcome: TestResult) -> TestResult {
    match outcome {
        TestResult::NoVerdict(said) if said.starts_with(run::BY_SIGNAL) => TestResult::Failed(said),
        other => other,
    }
}
/// Runs the tests of a mutant with at most one fault switched on.
fn run_program(programs: &[Program], m: &Mutant, fault: Option<u32>) -> Result<TestResult, String> {
    let unknown = || format!("mutant `{}`: `{}` names no program", m.name, m.tests.join(" "));
    let tests = Tests::parse(&m.tests).ok_or_else(unknown)?;
    let program = programs.iter().find(|program| program.runs(&tests)).ok_or_else(unknown)?;
    run::program(&program.path, &program.package, &tests.names, fault)
}

/// Tests that a mutant names: those of one program that match a name, or all of them.
#[derive(Clone, PartialEq, Debug)]
struct Tests<'a> {
    package: &'a str,
    /// `--lib`, `--bin` or `--test`.
    kind: &'a str,
    /// Name of the program; empty for `--lib`.
    target: &'a str,
    /// Arguments for the program.
    names: Vec<&'a str>,
}
impl<'a> Tests<'a> {
    /// Parses arguments of `cargo test`; `None` if they have another form.
    fn parse(tests: &[&'a str]) -> Option<Tests<'a>> {
        let (of_cargo, of_tests) = run::split(tests);
        let (package, kind, target, names) = match of_cargo {
            ["-p", package, "--lib", names @ ..] => (package, "--lib", "", names),
            ["-p", package, kind, target, names @ ..] if ["--test", "--bin"].contains(kind) => {
                (package, *kind, *target, names)
            }
            _ => return None,
        };
        let names = names.iter().chain(of_tests.iter().skip(1)).copied().collect::<Vec<_>>();
        let has_option = names.iter().any(|name| name.starts_with('-'));
        (!has_option).then_some(Tests { package, kind, target, names })
    }
}
/// Returns `cargo test` arguments that build the programs of all tests: packages and targets.
fn arguments_for(tests: &[Tests]) -> (Vec<String>, Vec<String>) {
    let packages = tests.iter().map(|of| ("-p", of.package)).collect::<BTreeSet<_>>();
    let targets = tests.iter().map(|of| (of.kind, of.target)).collect::<BTreeSet<_>>();
    let flat = |pairs: BTreeSet<(&str, &str)>| {
        let arguments = pairs.into_iter().flat_map(|(option, value)| [option, value]);
        arguments.filter(|argument| !argument.is_empty()).map(String::from).collect()
    };
    (flat(packages), flat(targets))
}

/// Built test program.
#[derive(PartialEq, Debug)]
struct Program {
    path: PathBuf,
    /// Folder of its package, which has the package's name.
    package: PathBuf,
    kind: String,
    name: String,
}
impl Program {
    /// Parses a line of `cargo --message-format=json`; `None` if it is not about a test program.
    fn parse(line: &Value) -> Option<Program> {
        if line["reason"] != "compiler-artifact" || line["profile"]["test"] != true {
            return None;
        }
        Some(Program {
            path: line["executable"].as_str()?.into(),
            package: Path::new(line["manifest_path"].as_str()?).parent()?.to_path_buf(),
            kind: line["target"]["kind"][0].as_str()?.to_string(),
            name: line["target"]["name"].as_str()?.to_string(),
        })
    }
    fn runs(&self, tests: &Tests) -> bool {
        let kind = tests.kind.trim_start_matches('-');
        let is_named = tests.target.is_empty() || self.name == tests.target;
        self.package.ends_with(tests.package) && self.kind == kind && is_named
    }
}

/// Result of a build, which may have failed.
struct TestBuild {
    is_complete: bool,
    /// Cargo's JSON messages.
    messages: Vec<Value>,
    /// Cargo's human-readable output.
    log: String,
}
impl TestBuild {
    fn of(copy: &Path, build: &Path, arguments: &[String]) -> Result<TestBuild, String> {
        let mut command = run::cargo("cargo", copy, build);
        command.args(["test", "--no-run", "--quiet", "--message-format=json"]).args(arguments);
        let out = command.output().map_err(|e| format!("cargo: {e}"))?;
        let text = String::from_utf8_lossy(&out.stdout);
        let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let log = String::from_utf8_lossy(&out.stderr).into_owned();
        Ok(TestBuild { is_complete: out.status.success(), messages, log })
    }
    fn programs(&self) -> Vec<Program> {
        self.messages.iter().filter_map(Program::parse).collect()
    }
    /// Returns the errors of the compiler, then those of cargo.
    fn errors(&self) -> String {
        let errors = self.messages.iter().filter(|message| is_error(message));
        let said = errors.filter_map(|message| message["message"]["rendered"].as_str());
        said.collect::<String>() + &self.log
    }
}
fn is_error(message: &Value) -> bool {
    message["reason"] == "compiler-message" && message["message"]["level"] == "error"
}

/// Sources with faults, before the change.
struct Sources<'a> {
    /// Path, text, and faults of each file.
    files: BTreeMap<&'a str, (String, Vec<Change<'a>>)>,
    /// For each file, the roots that need a `mod planted`.
    roots: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    root: &'a Path,
    alone: BTreeMap<u32, String>,
}
impl<'a> Sources<'a> {
    fn of(root: &'a Path, mutants: &[(u32, &'a Mutant<'a>)]) -> Result<Sources<'a>, String> {
        let is_root = |file: &&str| {
            let in_src = file.rsplit_once("src/").map_or("", |(_, name)| name);
            let is_program = in_src.strip_prefix("bin/").is_some_and(|name| !name.contains('/'));
            in_src == "lib.rs" || in_src == "main.rs" || is_program && in_src.ends_with(".rs")
        };
        let all = super::files(root)?;
        let all_roots = all.iter().map(String::as_str).filter(is_root).map(PathBuf::from);
        let read = |path: &Path| std::fs::read_to_string(root.join(path)).ok();
        let roots = roots_of_files(&all_roots.collect::<Vec<_>>(), read)?;
        let (mut files, mut alone) = (BTreeMap::<_, (String, Vec<Change>)>::new(), BTreeMap::new());
        for (number, m) in mutants {
            if !roots.contains_key(Path::new(m.file)) {
                alone.insert(*number, "its file belongs to no library and no program".to_string());
                continue;
            }
            if !files.contains_key(m.file) {
                files.insert(m.file, (super::read(&root.join(m.file))?, vec![]));
            }
            let (_, changes) = files.get_mut(m.file).expect("just put in");
            changes.push(Change { number: *number, old: &m.old, new: &m.new });
        }
        Ok(Sources { files, roots, root, alone })
    }
    /// Returns the texts with all faults that can be switched; adds the others to those planted
    /// alone.
    fn texts(&mut self) -> Result<Texts, String> {
        let mut texts = Texts { files: HashMap::new(), switched: HashMap::new() };
        let mut roots = BTreeSet::new();
        for (file, (text, changes)) in &self.files {
            let changes = changes.iter().filter(|c| !self.alone.contains_key(&c.number)).copied();
            let switched = switch(text, &changes.collect::<Vec<_>>());
            let switched = switched.map_err(|e| format!("{file}: {e}"))?;
            self.alone.extend(switched.refused.iter().cloned());
            if !switched.has_faults() {
                continue;
            }
            roots.extend(&self.roots[Path::new(file)]);
            texts.files.insert(file.to_string(), switched.text.clone());
            texts.switched.insert(file.to_string(), switched);
        }
        for root in roots {
            let name = root.display().to_string();
            let text = match texts.files.remove(&name) {
                Some(text) => text,
                None => super::read(&self.root.join(root))?,
            };
            texts.files.insert(name, text + MODULE);
        }
        Ok(texts)
    }
}

/// Sources with faults, after the change.
struct Texts {
    /// Replacements for the texts of the repository.
    files: HashMap<String, String>,
    switched: HashMap<String, Switched>,
}
impl Texts {
    /// Returns the faults that contain errors of a build, each with its first error.
    fn blamed(&self, lines: &[Value]) -> BTreeMap<u32, String> {
        let mut blamed = BTreeMap::new();
        for message in lines.iter().filter(|line| is_error(line)).map(|line| &line["message"]) {
            let said = message["message"].as_str().unwrap_or("an error").to_string();
            let spans = message["spans"].as_array().map_or(&[][..], Vec::as_slice);
            let of = |only_primary: bool| {
                let spans = spans.iter().filter(|span| !only_primary || span["is_primary"] == true);
                let places = spans.flat_map(places);
                places.flat_map(|(file, at)| self.faults_at(file, at)).collect::<Vec<_>>()
            };
            let primary = of(true);
            for fault in if primary.is_empty() { of(false) } else { primary } {
                blamed.entry(fault).or_insert_with(|| said.clone());
            }
        }
        blamed
    }
    fn faults_at(&self, file: &str, at: usize) -> Vec<u32> {
        // A module of another program is named by its way from there.
        let file = normal(Path::new(file)).display().to_string();
        self.switched.get(&file).map_or(vec![], |switched| switched.faults_at(at))
    }
}
/// Returns the file and byte of a span, and those of the macro calls that it came from.
fn places(span: &Value) -> Vec<(&str, usize)> {
    let mut places = vec![];
    let mut span = span;
    while let (Some(file), Some(at)) = (span["file_name"].as_str(), span["byte_start"].as_u64()) {
        places.push((file, at as usize));
        span = &span["expansion"]["span"];
    }
    places
}

#[cfg(test)]
mod tests {
    use super::super::list::parse;
    use super::*;
    use serde_json::json;

    #[test]
    fn tests_are_read() {
        let of = |text: &'static str| Tests::parse(&text.split(' ').collect::<Vec<_>>());
        let tests = |kind, target, names: &[&'static str]| {
            let names = names.to_vec();
            Some(Tests { package: "a", kind, target, names })
        };
        assert_eq!(of("-p a --lib"), tests("--lib", "", &[]));
        assert_eq!(of("-p a --test b c::"), tests("--test", "b", &["c::"]));
        assert_eq!(of("-p a --test b -- c d"), tests("--test", "b", &["c", "d"]));
        for other in ["-p a", "-p a b", "--lib", "-p a --lib --release", "-p a --test"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn one_build_has_all_tests() {
        let tests = ["-p b --test x", "-p a --test x", "-p a --lib f"]
            .map(|list| Tests::parse(&list.split(' ').collect::<Vec<_>>()).unwrap());
        let (packages, targets) = arguments_for(&tests);
        assert_eq!(packages, ["-p", "a", "-p", "b"]);
        assert_eq!(targets, ["--lib", "--test", "x"]);
    }

    #[test]
    fn programs_are_found() {
        let line = json!({
            "reason": "compiler-artifact", "manifest_path": "/w/crates/a/Cargo.toml",
            "executable": "/t/a-1", "profile": { "test": true },
            "target": { "kind": ["test"], "name": "x" },
        });
        let program = Program::parse(&line).unwrap();
        let runs = |list: &[&str]| program.runs(&Tests::parse(list).unwrap());
        assert!(runs(&["-p", "a", "--test", "x", "y"]));
        assert!(!runs(&["-p", "b", "--test", "x"]) && !runs(&["-p", "a", "--test", "y"]));
        assert!(!runs(&["-p", "a", "--lib"]) && !runs(&["-p", "a", "--bin", "x"]));
        let library = json!({ "reason": "compiler-artifact", "profile": { "test": false } });
        assert_eq!(Program::parse(&library), None);
    }

    #[test]
    fn paths_have_no_parents() {
        for (path, same) in [("a/b.rs", "a/b.rs"), ("a/c/../../d/e.rs", "d/e.rs"), ("../a", "../a")]
        {
            assert_eq!(normal(Path::new(path)), Path::new(same));
        }
    }

    #[test]
    fn errors_blame_faults() {
        let source = "fn f() { one(); } fn g() { two(); }";
        let change = |number, old, new| Change { number, old, new };
        let changes = [change(1, "one()", "ill()"), change(2, "two()", "bad()")];
        let switched = switch(source, &changes).unwrap();
        let at = |text: &str| switched.text.find(text).unwrap();
        let (ill, two, outside) = (at("ill"), at("two"), at("fn g"));
        let switched = HashMap::from([("a.rs".to_string(), switched)]);
        let texts = Texts { files: HashMap::new(), switched };
        let span = |file: &str, byte: usize, is_primary: bool| {
            let expansion = Value::Null;
            json!({
                "file_name": file, "byte_start": byte, "is_primary": is_primary,
                "expansion": expansion,
            })
        };
        let message = |level: &str, spans: Vec<Value>| {
            let message = json!({ "level": level, "message": "wrong", "spans": spans });
            json!({ "reason": "compiler-message", "message": message })
        };
        let blamed = |message: Value| texts.blamed(&[message]).into_keys().collect::<Vec<_>>();
        assert_eq!(blamed(message("error", vec![span("a.rs", ill, true)])), [1]);
        assert_eq!(blamed(message("error", vec![span("a.rs", two, true)])), [2]);
        let both = vec![span("a.rs", ill, true), span("a.rs", two, false)];
        assert_eq!(blamed(message("error", both)), [1]);
        let elsewhere = vec![span("b.rs", ill, true), span("a.rs", two, false)];
        assert_eq!(blamed(message("error", elsewhere)), [2]);
        // The location of a macro's definition is not in a fault, but that of its call is.
        let mut of_macro = span("/std.rs", 1, true);
        of_macro["expansion"] = json!({ "span": span("a.rs", ill, false) });
        assert_eq!(blamed(message("error", vec![of_macro])), [1]);
        assert!(blamed(message("warning", vec![span("a.rs", ill, true)])).is_empty());
        assert!(blamed(message("error", vec![span("a.rs", outside, true)])).is_empty());
    }

    #[test]
    fn verdicts_are_those_of_faults_that_are_built_together() {
        let root = std::env::temp_dir().join(format!("koel-together-{}", std::process::id()));
        let write = |file: &str, text: &str| {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*\"]\n");
        write(".gitignore", "/target\n");
        write("crates/tiny/Cargo.toml", "[package]\nname = \"tiny\"\nedition = \"2024\"\n");
        let source = "#![no_std]
            unsafe extern \"C\" { pub fn abort() -> !; }
            pub fn three() -> u32 { let two = 2; two + one() }
            pub const fn one() -> u32 { 1 }
            pub fn unseen() -> u32 { 4 }
            #[cfg(test)]
            mod tests {
                #[test] fn sums() { assert_eq!(super::three(), 3, \"no sum\"); }
                #[test] fn fails() { assert_eq!(super::unseen(), 5); }
            }\n";
        write("crates/tiny/src/lib.rs", source);
        let git = std::process::Command::new("git").arg("init").arg("-q").arg(&root).status();
        assert!(git.unwrap().success());
        let list = [
            ("caught", "sums", "two + one()", "two"),
            ("survives", "sums", "{ 4 }", "{ 5 }"),
            ("aborts", "sums", "let two = 2;", "unsafe { abort() }; let two = 2;"),
            ("is of another type", "sums", "let two = 2;", "let two = ();"),
            ("is computed at compile time", "sums", "{ 1 }", "{ 0 }"),
            ("names no test", "sum_of", "two + one()", "two + 3"),
            ("fails anyway", "fails", "{ 4 }", "{ 6 }"),
        ];
        let list = list.map(|(name, test, old, new)| {
            format!("{name}\ncrates/tiny/src/lib.rs\n= -p tiny --lib {test}\n- {old}\n+ {new}\n\n")
        });
        let list = list.concat();
        let mutants = parse(&list).unwrap();
        super::super::list::check(&root, &mutants).unwrap();
        let numbered = (1..).zip(&mutants).collect::<Vec<_>>();
        let (copy, build) = (root.join("target/copy"), root.join("target/build"));
        let together = Together::build(&root, &copy, &build, &numbered).unwrap();
        let alone = together.alone.iter().map(|(number, why)| (*number, why.as_str()));
        let expected = [(4, "mismatched types"), (5, "it may be evaluated at compile time")];
        let alone = alone.collect::<Vec<_>>();
        assert_eq!((alone[0].0, &alone[1..]), (4, &expected[1..]), "{alone:?}");
        let mut said =
            numbered.iter().map(|(number, m)| match together.test(*number, m).unwrap() {
                TestResult::Passed => "survived".to_string(),
                TestResult::Failed(said) => format!("caught: {said}"),
                TestResult::NoVerdict(said) => format!("not run: {said}"),
            });
        let mut next = || said.next().unwrap();
        assert!(next().starts_with("caught: assertion `left == right` failed: no sum"));
        assert_eq!(next(), "survived");
        assert_eq!(next(), "caught: ended by signal 6");
        assert!(next().starts_with("not run: error"), "it does not compile alone either");
        assert!(next().starts_with("caught: "));
        assert!(next().starts_with("not run: without a fault: no test ran"));
        assert!(next().starts_with("not run: fails without a fault: "));
        drop(said);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
