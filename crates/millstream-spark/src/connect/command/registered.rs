//! What a client has registered in its session to be called by name.

use std::collections::HashMap;

use millstream_core::Result;
use parking_lot::RwLock;
use spark_connect_proto::{CommonInlineUserDefinedDataSource, CommonInlineUserDefinedFunction, CommonInlineUserDefinedTableFunction};

use crate::python::PythonFunction;

/// Functions, table functions and data sources by name in lower case.
#[derive(Debug, Default)]
pub(in crate::connect) struct Registered {
    functions: RwLock<HashMap<String, CommonInlineUserDefinedFunction>>,
    table_functions: RwLock<HashMap<String, CommonInlineUserDefinedTableFunction>>,
    data_sources: RwLock<HashMap<String, CommonInlineUserDefinedDataSource>>,
}

impl Registered {
    /// Registers a function over an earlier one of its name.
    ///
    /// # Errors
    /// `_LEGACY_ERROR_TEMP_1329` for functions of the JVM; those of its type.
    pub(super) fn add_function(&self, function: CommonInlineUserDefinedFunction) -> Result<()> {
        PythonFunction::of(&function)?;
        self.functions.write().insert(function.function_name.to_lowercase(), function);
        Ok(())
    }

    /// The function of a name, whatever its case.
    pub(in crate::connect) fn function(&self, name: &str) -> Option<CommonInlineUserDefinedFunction> {
        self.functions.read().get(&name.to_lowercase()).cloned()
    }

    /// The table function of a name, whatever its case.
    pub(in crate::connect) fn table_function(&self, name: &str) -> Option<CommonInlineUserDefinedTableFunction> {
        self.table_functions.read().get(&name.to_lowercase()).cloned()
    }

    /// The data source of a format, whatever its case.
    pub(in crate::connect) fn data_source(&self, format: &str) -> Option<CommonInlineUserDefinedDataSource> {
        self.data_sources.read().get(&format.to_lowercase()).cloned()
    }

    /// The names of all functions, in order.
    pub(in crate::connect) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.functions.read().keys().chain(self.table_functions.read().keys()).cloned().collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Forgets the functions of a name; says whether there were some.
    pub(in crate::connect) fn drop_function(&self, name: &str) -> bool {
        let name = name.to_lowercase();
        let function = self.functions.write().remove(&name).is_some();
        self.table_functions.write().remove(&name).is_some() || function
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
