use object_store::path::Path as ObjectPath;

use super::super::testing::{create, options, read};
use super::*;

#[tokio::test]
async fn local_places_are_durable_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let options = options();
    let place = directory.path().join("new/check point");
    let (store, path, url) = open(place.to_str().unwrap(), Privacy::Private, &options).unwrap();
    let file = path.clone().join("metadata");
    create(&*store, file.as_ref(), "x").await.unwrap();
    assert_eq!(std::fs::read_to_string(place.join("metadata")).unwrap(), "x");
    let counts = options.stats().counts();
    assert_eq!(counts.file_syncs, 1);
    // For new, for the check point in it, and for the file; what was there before may add its own.
    assert!(counts.dir_syncs >= 3);
    let (again, same_path, same_url) = open(url.as_str(), Privacy::Private, &options).unwrap();
    assert_eq!((same_path, same_url), (path, url));
    assert_eq!(read(&*again, file.as_ref()).await.unwrap(), "x");
    assert_eq!(settle(place.to_str().unwrap(), Privacy::Private, &options).await.unwrap(), 0);
}

#[tokio::test]
async fn stores_in_memory_are_shared_by_name_within_the_options() {
    let options = options();
    let (first, path, _) = open("memory://one/a", Privacy::Shared, &options).unwrap();
    create(&*first, path.as_ref(), "x").await.unwrap();
    let (same, ..) = open("memory://one/b", Privacy::Private, &options.clone()).unwrap();
    assert_eq!(read(&*same, "a").await.unwrap(), "x");
    let (other, ..) = open("memory://two/a", Privacy::Shared, &options).unwrap();
    assert!(read(&*other, "a").await.is_err());
    assert_eq!(settle("memory://one/", Privacy::Shared, &options).await.unwrap(), 0);
}

#[test]
fn remote_places_open_without_a_request_and_once_per_bucket() {
    let config = Options::new()
        .with("spark.hadoop.fs.s3a.access.key", "id")
        .with("fs.s3a.secret.key", "secret")
        .with("google_skip_signature", "true")
        .with("azure_storage_account_name", "account")
        .with("azure_skip_signature", "true")
        .with("maxFilesPerTrigger", "1");
    let options = options().with_config(config);
    for (text, path) in
        [("s3://bucket/a b", "a b"), ("gs://bucket/c", "c"), ("az://box/d", "d"), ("abfss://box@account.dfs.core.windows.net/d", "d")]
    {
        let (store, found, _) = open(text, Privacy::Shared, &options).unwrap();
        assert_eq!(found, ObjectPath::from(path));
        assert!(store.to_string().starts_with("ConfirmedStore("), "{store}");
        let (again, ..) = open(text, Privacy::Private, &options).unwrap();
        assert!(Arc::ptr_eq(&store, &again));
    }
}

#[test]
fn s3_takes_both_kinds_of_names_and_conditions() {
    let config = Options::new()
        .with("fs.s3a.access.key", "id")
        .with("aws_region", "eu-north-1")
        .with("AWS_ENDPOINT", "http://localhost:9000")
        .with("fs.s3a.path.style.access", "true");
    let builder = s3_builder("s3://bucket", &config);
    let value = |key| builder.get_config_value(&key);
    assert_eq!(value(AmazonS3ConfigKey::AccessKeyId).as_deref(), Some("id"));
    assert_eq!(value(AmazonS3ConfigKey::Region).as_deref(), Some("eu-north-1"));
    assert_eq!(value(AmazonS3ConfigKey::Endpoint).as_deref(), Some("http://localhost:9000"));
    assert_eq!(value(AmazonS3ConfigKey::VirtualHostedStyleRequest).as_deref(), Some("false"));
    assert_eq!(value(AmazonS3ConfigKey::ConditionalPut).as_deref(), Some("etag"));
    assert_eq!(value(AmazonS3ConfigKey::CopyIfNotExists).as_deref(), Some("multipart"));
}

#[test]
fn what_is_not_a_location_is_refused() {
    assert_eq!(open("hdfs://host/a", Privacy::Shared, &options()).unwrap_err().code(), "INVALID_LOCATION");
}
