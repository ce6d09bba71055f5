//! Names of the fields of a point that formats leave to the programs.

/// Names of the components of a normal without their last letter, x, y or z, in lower case and
/// without punctuation; the first of which a file has all three is used. PLY and OBJ programs write
/// `nx`; the Point Cloud Library, Blender and CloudCompare `normal_x`, `NormalX` and the like.
const NORMALS: [&str; 6] = ["n", "normal", "normals", "norm", "nrm", "vertexnormal"];

/// Returns the places of the components of a normal among the names of a point's fields.
pub(crate) fn normal<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<[usize; 3]> {
    let letters = |name: &str| {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        letters.map(|c| c.to_ascii_lowercase()).collect::<String>()
    };
    let names = names.into_iter().map(letters).collect::<Vec<String>>();
    NORMALS.into_iter().find_map(|start| {
        let place = |axis: &str| {
            names.iter().position(|name| name.strip_prefix(start).is_some_and(|rest| rest == axis))
        };
        Some([place("x")?, place("y")?, place("z")?])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normals_go_by_many_names() {
        for names in [
            "nx ny nz x y z",
            "Normal_X normal_y NORMAL_Z",
            "normalx normaly normalz",
            "NormalX NormalY NormalZ",
            "n_x n_y n_z",
            "normal.x normal.y normal.z",
            "vertex_normal_x vertex_normal_y vertex_normal_z",
        ] {
            assert_eq!(normal(names.split(' ')), Some([0, 1, 2]), "{names}");
        }
        assert_eq!(normal("normal_x ny nx normal_y nz normal_z".split(' ')), Some([2, 1, 4]));
        for names in ["x y z", "nx ny z", "nx ny nzz", "normal_x ny nz", ""] {
            assert_eq!(normal(names.split(' ')), None, "{names}");
        }
    }
}
