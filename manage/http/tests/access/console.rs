//! The console's files, what browsers are told of them, and paths that lead out of them.

use hyper::StatusCode;

use crate::rig::Rig;

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_served_for_every_path_of_the_console() {
    let rig = Rig::start().await;
    for path in
        ["/", "/setup", "/login", "/pools/tank.2", "/spaces/tank/vm.1", "/disks/%2Fsrv%2Fdisk.img", "/index.html"]
    {
        let answer = rig.send("GET", path, &[], "").await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (StatusCode::OK, "text/html; charset=utf-8"),
            "{path}"
        );
        assert_eq!(answer.header("cache-control"), "no-cache");
        for (name, part) in [
            ("content-security-policy", "script-src 'self';"),
            ("content-security-policy", "frame-ancestors 'none'"),
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
        ] {
            assert!(answer.header(name).contains(part), "{name}: {answer:?}");
        }
        assert!(!answer.headers.contains_key("strict-transport-security"), "its certificate is its own");
    }
    let page = rig.send("GET", "/", &[], "").await;
    assert!(String::from_utf8_lossy(&page.body).contains("Holdfast"));
    let tag = page.header("etag").to_owned();
    assert_eq!(rig.send("GET", "/", &[("if-none-match", tag)], "").await.status, StatusCode::NOT_MODIFIED);
    let packed = rig.send("GET", "/", &[("accept-encoding", "br, gzip".into())], "").await;
    let smaller = packed.header("content-encoding") == "gzip" && packed.body.starts_with(&[0x1f, 0x8b]);
    assert!(smaller || packed.body == page.body, "{packed:?}");
    assert_eq!(rig.send("GET", "/", &[("accept-encoding", "gzip;q=0".into())], "").await.body, page.body);
    assert_eq!(rig.send("POST", "/", &[], "").await.status, StatusCode::METHOD_NOT_ALLOWED);
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_leads_out_of_the_console() {
    let rig = Rig::start().await;
    let page = rig.send("GET", "/", &[], "").await.body;
    for path in [
        "/../../../../etc/passwd",
        "/assets/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2f..%2fetc%2fpasswd",
        "/assets/..%5c..%5cetc%5cpasswd",
        "//etc/passwd",
        "/etc/passwd",
        "/assets/missing.js",
        "/missing.js",
        "/config.db",
        "/assets/%00",
    ] {
        let answer = rig.send("GET", path, &[], "").await;
        let is_page = answer.status == StatusCode::OK && answer.body == page;
        assert!(answer.status == StatusCode::NOT_FOUND || is_page, "{path}: {answer:?}");
        assert!(!String::from_utf8_lossy(&answer.body).contains("root:"), "{path}");
    }
    assert_eq!(rig.send("GET", "/api/v2/pools", &[], "").await.status, StatusCode::NOT_FOUND);
    rig.stop().await;
}
