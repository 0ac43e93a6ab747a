//! JSON of another kind than the model's, in the words of the service's framework, which is written
//! in Java and says so.

use crate::wire::failure::Failure;
use crate::wire::json::Json;

/// The kind that was expected.
#[derive(Clone, Copy, Debug)]
pub enum Kind<'n> {
    /// A class of `java.lang`: String, Boolean, Integer, Long.
    Scalar(&'static str),
    Blob,
    List,
    /// The class of its values in full.
    Map(&'n str),
    /// The name of its class in the model.
    Structure(&'n str),
}

/// Its expected place; the framework reads members and elements by different paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Member,
    /// An element of a list or a map.
    Element,
}

/// The package of the model's classes.
pub const MODEL: &str = "com.amazonaws.dynamodb.v20120810.";

/// A map of attributes: an item, a key or a nested map.
pub const ATTRIBUTES: Kind<'static> = Kind::Map("com.amazonaws.dynamodb.v20120810.AttributeValue");

impl Kind<'_> {
    /// The failure of `json`, which is not of this kind.
    pub fn failure(self, json: &Json<'_>, place: Place) -> Failure {
        Failure::serialization(match (json, self) {
            (Json::List(_), _) => self.not_a_list(),
            (Json::Object(_), _) => "Start of structure or map found where not expected".to_owned(),
            (_, Kind::Scalar(type_name)) => no_conversion(json, type_name),
            (_, Kind::Blob) => "only base-64-encoded strings are convertible to bytes".to_owned(),
            (_, Kind::Structure(_)) if place == Place::Element => "Unexpected value type in payload".to_owned(),
            (_, Kind::List | Kind::Map(_)) if place == Place::Element => NOT_A_CLASS.to_owned(),
            _ => "Unexpected field type".to_owned(),
        })
    }

    fn not_a_list(self) -> String {
        match self {
            Kind::Scalar(type_name) => format!("Unrecognized collection type class java.lang.{type_name}"),
            Kind::Blob => "Unrecognized collection type class java.nio.ByteBuffer".to_owned(),
            Kind::List => "Start of list found where not expected".to_owned(),
            Kind::Map(of) => format!("Unrecognized collection type java.util.Map<java.lang.String, {of}>"),
            Kind::Structure(name) => format!("Unrecognized collection type class {MODEL}{name}"),
        }
    }
}

const NOT_A_CLASS: &str = "class sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl cannot be cast to class \
     java.lang.Class (sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl and java.lang.Class are in module \
     java.base of loader 'bootstrap')";

fn no_conversion(json: &Json<'_>, type_name: &str) -> String {
    let token = match json {
        Json::Bool(true) => "TRUE_VALUE",
        Json::Bool(false) => "FALSE_VALUE",
        Json::Integer(_) => "NUMBER_VALUE",
        Json::Float(_) => "DECIMAL_VALUE",
        Json::Text(_) if type_name != "Boolean" => "STRING_VALUE",
        _ => return "Unexpected token received from parser".to_owned(),
    };
    format!("{token} cannot be converted to {type_name}")
}
