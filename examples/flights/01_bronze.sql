-- Bronze: what was reported, as it was reported. Nothing is judged here; what cannot be read goes to the quarantine.
CREATE OR REFRESH STREAMING TABLE bronze_departures
COMMENT 'Departures as reported, with the file they came from'
AS SELECT
  *,
  _metadata.file_name AS source_file,
  current_timestamp() AS ingested_at
FROM STREAM read_files(
  '${data}/{departures,damaged}',
  format => 'json',
  schema => 'scheduled TIMESTAMP, reported TIMESTAMP, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
             distance INT, dep_delay INT, arr_delay INT, cancelled BOOLEAN',
  rescuedDataColumn => '_rescued_data',
  mode => 'DROPMALFORMED');
