use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> (Scheme, String, String) {
    let location = Location::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    (location.scheme, location.path.to_string(), location.url.to_string())
}

fn local(path: &str, url: &str) -> (Scheme, String, String) {
    (Scheme::Local, path.to_owned(), url.to_owned())
}

#[test]
fn plain_paths_are_literal() {
    assert_eq!(parse("/no/such/in"), local("no/such/in", "file:///no/such/in"));
    assert_eq!(parse("/no/such/../in/./x/"), local("no/in/x", "file:///no/in/x"));
    assert_eq!(parse("/no/a b/20%25/x#1?*[a-z]"), local("no/a b/20%25/x#1?*[a-z]", "file:///no/a%20b/20%2525/x%231%3F*[a-z]"));
    assert_eq!(parse("/no/žluť").0, Scheme::Local);
    assert_eq!(parse("/").1, "");
    let here = env::current_dir().unwrap();
    let below = |name: &str| here.join(name).to_str().unwrap()[1..].to_owned();
    assert_eq!(parse("no/such").1, below("no/such"));
    assert_eq!(parse("2024-01-01T00:00:00").1, below("2024-01-01T00:00:00"));
    assert_eq!(parse("a:b").1, below("a:b"));
    assert_eq!(parse(".").1, below("")[..below("").len() - 1]);
}

#[test]
fn file_urls_are_decoded_and_keep_glob_characters() {
    for text in ["file:///no/a%20b", "file:/no/a%20b", "file://localhost/no/a b", "FILE:///no/a%20b", "file:///no//a%20b/"] {
        assert_eq!(parse(text), local("no/a b", "file:///no/a%20b"), "{text}");
    }
    assert_eq!(parse("file:///no/in?/x#1*.json").1, "no/in?/x#1*.json");
    assert_eq!(parse("file:///no/50%").1, "no/50%");
}

#[test]
fn remote_urls() {
    let remote = |scheme, path: &str, url: &str| (scheme, path.to_owned(), url.to_owned());
    assert_eq!(parse("s3://bucket/a%20b/c"), remote(Scheme::S3, "a b/c", "s3://bucket/a%20b/c"));
    assert_eq!(parse("s3a://bucket/c/"), remote(Scheme::S3, "c", "s3://bucket/c"));
    assert_eq!(parse("s3://bucket"), remote(Scheme::S3, "", "s3://bucket/"));
    assert_eq!(parse("s3://bucket/x#1?"), remote(Scheme::S3, "x#1?", "s3://bucket/x%231%3F"));
    assert_eq!(parse("gs://bucket/c"), remote(Scheme::Gcs, "c", "gs://bucket/c"));
    assert_eq!(parse("az://container/c"), remote(Scheme::Azure, "c", "az://container/c"));
    let abfss = "abfss://box@account.dfs.core.windows.net/a/b";
    assert_eq!(parse(abfss), remote(Scheme::Azure, "a/b", abfss));
    assert_eq!(parse("memory:///a"), remote(Scheme::Memory, "a", "memory:///a"));
    assert_eq!(parse("memory://one/a"), remote(Scheme::Memory, "a", "memory://one/a"));
}

#[test]
fn everything_else_is_refused_and_says_what_is_accepted() {
    for text in [
        "",
        "  ",
        "hdfs://host/a",
        "dbfs:/a",
        "https://host/a",
        "s3:/a",
        "s3:///a",
        "file:a",
        "file://host/a",
        "s3://b/a//b",
        "s3://b/../a",
        "a\nb",
        "/a/\u{1}b",
        "s3://b/%FF",
    ] {
        let error = Location::parse(text).unwrap_err();
        assert_eq!(error.code(), "INVALID_LOCATION", "{text}");
        assert!(error.message().contains("s3:"), "{error}");
    }
}

#[test]
fn secrets_in_urls_are_refused_and_not_repeated() {
    for text in ["s3://key:hunter2@bucket/a", "abfss://box:hunter2@account.dfs.core.windows.net/a", "gs://hunter2@bucket/a"] {
        let error = Location::parse(text).unwrap_err();
        assert_eq!(error.code(), "INVALID_LOCATION");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
fn links_are_resolved_where_they_exist() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("real/deep")).unwrap();
    std::os::unix::fs::symlink("real", root.join("link")).unwrap();
    let of = |path: &str| parse(root.join(path).to_str().unwrap()).1;
    assert_eq!(of("link/deep/new"), of("real/deep/new"));
    assert_eq!(of("link/deep/../x"), of("real/x"));
    assert_eq!(of("real/deep/../../y"), of("y"));
}

proptest! {
    #[test]
    fn the_url_of_a_path_leads_back_to_it(names in prop::collection::vec("[^/\\p{Cc}]{1,12}", 1..4)) {
        prop_assume!(names.iter().all(|name| name != "." && name != ".."));
        let text = format!("/no-such-place/{}", names.join("/"));
        let location = Location::parse(&text).unwrap();
        prop_assert_eq!(location.path.as_ref(), &text[1..]);
        prop_assert_eq!(&Location::parse(location.url.as_str()).unwrap(), &location);
        // As others read it.
        prop_assert_eq!(location.url.to_file_path().unwrap(), PathBuf::from(&text));
        prop_assert_eq!(Path::from_url_path(location.url.path()).unwrap(), location.path);
    }

    #[test]
    fn the_url_of_a_key_leads_back_to_it(names in prop::collection::vec("[^/\\p{Cc}]{1,12}", 1..4)) {
        prop_assume!(names.iter().all(|name| name != "." && name != ".."));
        let path = Path::parse(names.join("/")).unwrap();
        let mut url = Url::parse("s3://bucket").unwrap();
        url.path_segments_mut().unwrap().extend(path.parts());
        let location = Location::parse(url.as_str()).unwrap();
        prop_assert_eq!(&location.path, &path);
        prop_assert_eq!(&Location::parse(location.url.as_str()).unwrap(), &location);
    }
}
