//! What a request may do while a client loads the definitions of a pipeline.
//!
//! The client says in every request which graph it is loading, and which flow while it calls that flow's query function. A query function
//! describes a frame: anything that would run or resolve a plan is refused there, since the tables that it reads may not exist yet. Outside
//! of query functions statements are refused that would change the session or its catalog.

use millstream_core::{Error, Result};
use prost::Message;
use spark_connect_proto::command::CommandType;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{PipelineAnalysisContext, Relation, SqlCommand, UserContext};

use crate::connect::plan::Work;
use crate::sql::parse::Statement;

/// The message of this name among the extensions of a request's user context.
const NAME: &str = "spark.connect.PipelineAnalysisContext";

/// What a client is loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::connect) enum Loading {
    /// A file of definitions.
    File,
    /// The query function of a flow.
    QueryFunction,
}

impl Loading {
    /// What a request says that its client is loading; `None` for all other requests.
    pub(in crate::connect) fn of(user: Option<&UserContext>) -> Option<Loading> {
        let is_context = |any: &&prost_types::Any| any.type_url.rsplit('/').next() == Some(NAME);
        // The innermost one was added last.
        let any = user?.extensions.iter().rfind(is_context)?;
        let context = PipelineAnalysisContext::decode(any.value.as_slice()).ok()?;
        #[expect(deprecated, reason = "clients of 4.2 name the flow this way")]
        let flow = context.flow_name.is_some() || context.flow_identifier.is_some();
        Some(if flow { Loading::QueryFunction } else { Loading::File })
    }

    /// Refuses what has no place in a query function.
    ///
    /// # Errors
    /// `ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION`, `UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND`.
    pub(in crate::connect) fn admit(self, work: &Work) -> Result<()> {
        if let Work::Command(command) = work
            && let Some(CommandType::SqlCommand(command)) = &command.command_type
        {
            return admit_statement(command);
        }
        self.admit_analysis()
    }

    /// Refuses to resolve a plan inside of a query function.
    ///
    /// # Errors
    /// `ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION`.
    pub(in crate::connect) fn admit_analysis(self) -> Result<()> {
        match self {
            Loading::File => Ok(()),
            Loading::QueryFunction => {
                let message = "A query function of a pipeline only describes its rows: whatever looks at a plan or runs it (schema, columns, \
                               collect, count, writes and other definitions) belongs outside of it.";
                Err(Error::invalid("ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION", message).with_sqlstate("0A000"))
            }
        }
    }
}

/// Statements that only tell something.
fn admit_statement(command: &SqlCommand) -> Result<()> {
    let Some(text) = text_of(command) else { return Ok(()) };
    // What does not parse is told where it is used.
    let Ok(statement) = crate::sql::parse::statement(&text, &Default::default(), &[]) else {
        return match crate::sql::parse::pipeline_statement(&text) {
            Ok(_) => Err(unsupported(&text)),
            Err(_) => Ok(()),
        };
    };
    match statement {
        Statement::Query(_) | Statement::Describe(_) | Statement::Show(_) | Statement::Explain { .. } => Ok(()),
        _ => Err(unsupported(&text)),
    }
}

fn unsupported(text: &str) -> Error {
    let first: String = text.split_whitespace().take(2).collect::<Vec<_>>().join(" ").to_uppercase();
    let message = format!("'{first}' is not supported in spark.sql while a pipeline is defined: only queries, DESCRIBE and SHOW are.");
    Error::invalid("UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND", message).with_sqlstate("0A000")
}

#[expect(deprecated, reason = "clients before 4.0 send the text itself")]
fn text_of(command: &SqlCommand) -> Option<String> {
    let of = |relation: &Relation| match &relation.rel_type {
        Some(RelType::Sql(sql)) => Some(sql.query.clone()),
        Some(RelType::WithRelations(with)) => match with.root.as_ref().and_then(|root| root.rel_type.as_ref()) {
            Some(RelType::Sql(sql)) => Some(sql.query.clone()),
            _ => None,
        },
        _ => None,
    };
    match &command.input {
        Some(input) => of(input),
        None => Some(command.sql.clone()).filter(|sql| !sql.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use spark_connect_proto::{Command, Sql};

    use super::*;

    fn context(flow: Option<&str>) -> UserContext {
        #[expect(deprecated, reason = "clients of 4.2 name the flow this way")]
        let context = PipelineAnalysisContext { flow_name: flow.map(str::to_owned), ..PipelineAnalysisContext::default() };
        let any = prost_types::Any { type_url: format!("type.googleapis.com/{NAME}"), value: context.encode_to_vec() };
        UserContext { extensions: vec![any], ..UserContext::default() }
    }

    fn sql(text: &str) -> Work {
        let relation = Relation { common: None, rel_type: Some(RelType::Sql(Sql { query: text.to_owned(), ..Sql::default() })) };
        let command = SqlCommand { input: Some(relation), ..SqlCommand::default() };
        Work::Command(Box::new(Command { command_type: Some(CommandType::SqlCommand(command)) }))
    }

    #[test]
    fn query_functions_describe_and_files_do_not_change_the_session() {
        assert_eq!(Loading::of(Some(&UserContext::default())), None);
        let file = Loading::of(Some(&context(None))).unwrap();
        let function = Loading::of(Some(&context(Some("f")))).unwrap();
        let root = Work::Root(Box::default());
        assert!(file.admit(&root).is_ok());
        assert_eq!(function.admit(&root).unwrap_err().code(), "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION");
        for (text, admitted) in [
            ("SELECT 1", true),
            ("SHOW TABLES", true),
            ("SELECT FROM WHERE", true),
            ("SET a = 1", false),
            ("USE db", false),
            ("CREATE TABLE t (a INT)", false),
            ("INSERT INTO t VALUES (1)", false),
            ("CREATE TEMPORARY VIEW v AS SELECT 1", false),
            ("CREATE MATERIALIZED VIEW m AS SELECT 1", false),
        ] {
            for loading in [file, function] {
                let outcome = loading.admit(&sql(text));
                assert_eq!(outcome.is_ok(), admitted, "{text}");
                assert!(outcome.err().is_none_or(|error| error.code() == "UNSUPPORTED_PIPELINE_SPARK_SQL_COMMAND"), "{text}");
            }
        }
    }
}
