//! Makes sure that there is a console to embed: a plain page where it was not built.

use std::fs;
use std::path::Path;

const PAGE: &str = "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Holdfast</title></head>\n\
    <body><h1>Holdfast</h1><p>This binary was built without its console. The command line and the API serve you: \
    see <code>holdfast --help</code> and <a href=\"/api/v1/openapi.json\">the API's document</a>.</p></body>\n</html>\n";

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/dist");
    let index = folder.join("index.html");
    if !index.exists() {
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&index, PAGE))
            .expect("a page can be written beside the console");
    }
    println!("cargo:rerun-if-changed={}", folder.display());
}
