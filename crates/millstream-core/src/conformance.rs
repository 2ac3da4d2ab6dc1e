//! Conformance suites: what every source and sink must do, as functions that a connector's tests call.
