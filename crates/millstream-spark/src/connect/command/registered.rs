//! What a client has registered in its session to be called by name.

use std::collections::HashMap;

use parking_lot::RwLock;
use spark_connect_proto::{CommonInlineUserDefinedDataSource, CommonInlineUserDefinedFunction, CommonInlineUserDefinedTableFunction};

/// Functions, table functions and data sources by name in lower case.
#[derive(Debug, Default)]
pub(in crate::connect) struct Registered {
    functions: RwLock<HashMap<String, CommonInlineUserDefinedFunction>>,
    table_functions: RwLock<HashMap<String, CommonInlineUserDefinedTableFunction>>,
    data_sources: RwLock<HashMap<String, CommonInlineUserDefinedDataSource>>,
}

impl Registered {
    /// Registers a function over an earlier one of its name.
    pub(super) fn add_function(&self, function: CommonInlineUserDefinedFunction) {
        self.functions.write().insert(function.function_name.to_lowercase(), function);
    }

    /// Registers a table function over an earlier one of its name.
    pub(super) fn add_table_function(&self, function: CommonInlineUserDefinedTableFunction) {
        self.table_functions.write().insert(function.function_name.to_lowercase(), function);
    }

    /// Registers a data source over an earlier one of its name.
    pub(super) fn add_data_source(&self, source: CommonInlineUserDefinedDataSource) {
        self.data_sources.write().insert(source.name.to_lowercase(), source);
    }

    /// Takes over what another session has registered.
    pub(in crate::connect) fn copy_from(&self, other: &Registered) {
        self.functions.write().clone_from(&other.functions.read());
        self.table_functions.write().clone_from(&other.table_functions.read());
        self.data_sources.write().clone_from(&other.data_sources.read());
    }
}
