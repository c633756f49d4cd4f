#include "client/ctl/json_schema.h"

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include "client/ctl/embedded.h"

namespace mlxcomm::ctl {
namespace {

namespace pb = google::protobuf;

pb::Value TextValue(std::string_view text) {
  pb::Value value;
  value.set_string_value(std::string(text));
  return value;
}

pb::Struct& Object(pb::Value& value) { return *value.mutable_struct_value(); }

pb::Value& Field(pb::Value& object, const std::string& name) {
  return (*Object(object).mutable_fields())[name];
}

// What the .proto file says of it: before it, or behind it on its line.
template <typename Described>
std::string CommentOf(const Described& described) {
  pb::SourceLocation location;
  if (!described.GetSourceLocation(&location)) return {};
  std::string words;
  bool space = false;
  for (const char c : location.leading_comments + " " + location.trailing_comments) {
    if (c == ' ' || c == '\n') {
      space = !words.empty();
      continue;
    }
    if (space) words += ' ';
    space = false;
    words += c;
  }
  return words;
}

void Describe(pb::Value& schema, const std::string& comment) {
  if (!comment.empty()) Field(schema, "description") = TextValue(comment);
}

// As protobuf prints it: 64-bit numbers as strings; a float may be "NaN" or "Infinity".
pb::Value OneOf(const pb::FieldDescriptor& field) {
  using Kind = pb::FieldDescriptor;
  pb::Value schema;
  switch (field.cpp_type()) {
    case Kind::CPPTYPE_BOOL: Field(schema, "type") = TextValue("boolean"); break;
    case Kind::CPPTYPE_INT32: Field(schema, "type") = TextValue("integer"); break;
    case Kind::CPPTYPE_UINT32:
      Field(schema, "type") = TextValue("integer");
      Field(schema, "minimum").set_number_value(0);
      break;
    case Kind::CPPTYPE_INT64:
    case Kind::CPPTYPE_UINT64:
      Field(schema, "type") = TextValue("string");
      Field(schema, "pattern") =
          TextValue(field.cpp_type() == Kind::CPPTYPE_INT64 ? "^-?[0-9]+$" : "^[0-9]+$");
      break;
    case Kind::CPPTYPE_FLOAT:
    case Kind::CPPTYPE_DOUBLE: {
      auto& types = *Field(schema, "type").mutable_list_value();
      *types.add_values() = TextValue("number");
      *types.add_values() = TextValue("string");
      break;
    }
    case Kind::CPPTYPE_STRING: Field(schema, "type") = TextValue("string"); break;
    case Kind::CPPTYPE_ENUM: {
      auto& names = *Field(schema, "enum").mutable_list_value();
      for (int i = 0; i < field.enum_type()->value_count(); ++i) {
        *names.add_values() = TextValue(field.enum_type()->value(i)->name());
      }
      break;
    }
    case Kind::CPPTYPE_MESSAGE:
      Field(schema, "$ref") = TextValue("#/$defs/" + std::string(field.message_type()->name()));
      break;
  }
  return schema;
}

pb::Value FieldSchema(const pb::FieldDescriptor& field) {
  pb::Value schema;
  if (field.is_map()) {
    Field(schema, "type") = TextValue("object");
    Field(schema, "additionalProperties") = OneOf(*field.message_type()->map_value());
  } else if (field.is_repeated()) {
    Field(schema, "type") = TextValue("array");
    Field(schema, "items") = OneOf(field);
  } else {
    schema = OneOf(field);
  }
  Describe(schema, CommentOf(field));
  return schema;
}

// Every field is printed but messages that are not set.
pb::Value MessageSchema(const pb::Descriptor& message) {
  pb::Value schema;
  Field(schema, "type") = TextValue("object");
  Describe(schema, CommentOf(message));
  pb::Value& properties = Field(schema, "properties");
  Object(properties);
  auto& required = *Field(schema, "required").mutable_list_value();
  for (int i = 0; i < message.field_count(); ++i) {
    const pb::FieldDescriptor& field = *message.field(i);
    Field(properties, std::string(field.name())) = FieldSchema(field);
    if (!field.has_presence()) *required.add_values() = TextValue(std::string(field.name()));
  }
  Field(schema, "additionalProperties").set_bool_value(false);
  return schema;
}

// It and all that it holds, by their names.
void Define(const pb::Descriptor& message, pb::Value& definitions, std::set<std::string>& seen) {
  if (message.options().map_entry() || !seen.insert(std::string(message.name())).second) return;
  Field(definitions, std::string(message.name())) = MessageSchema(message);
  for (int i = 0; i < message.field_count(); ++i) {
    const pb::FieldDescriptor* field = message.field(i);
    if (field->is_map()) field = field->message_type()->map_value();
    if (field->message_type() != nullptr) Define(*field->message_type(), definitions, seen);
  }
}

}  // namespace

const std::vector<VerbSchema>& VerbSchemas() {
  static const auto* const schemas = new std::vector<VerbSchema>{
      {"bench", {}, kBenchSchema},
      {"bugreport", {}, kBugreportSchema},
      {"cluster create", {}, kClusterSchema},
      {"cluster join", {}, kClusterSchema},
      {"cluster key rotate", {}, kClusterSchema},
      {"cluster key show", {}, kClusterSchema},
      {"completion", {}, kCompletionSchema},
      {"doctor", {}, kDoctorSchema},
      {"events", "mlxcomm.v1.EventsReply", {}},
      {"firstlight", {}, kFirstLightSchema},
      {"hosts export", {}, kHostsExportSchema},
      {"hosts import", {}, kHostsImportSchema},
      {"ping", {}, kPingSchema},
      {"plan", "mlxcomm.v1.PlanReply", {}},
      {"record", "mlxcomm.v1.FlightRecordReply", {}},
      {"schema", {}, kSchemaSchema},
      {"status", "mlxcomm.v1.StatusReply", {}},
      {"topology", "mlxcomm.v1.TopologyReply", {}},
      {"trace", {}, kTraceSchema},
  };
  return *schemas;
}

std::optional<std::string> SchemaOf(std::string_view verb) {
  for (const VerbSchema& schema : VerbSchemas()) {
    if (schema.verb != verb) continue;
    if (!schema.document.empty()) return std::string(schema.document);
    return SchemaOfMessage(schema.message, "mlxcommctl " + std::string(verb) + " --json");
  }
  return std::nullopt;
}

std::optional<std::string> SchemaOfMessage(std::string_view message, std::string_view title) {
  pb::FileDescriptorSet files;
  if (!files.ParseFromArray(kProtoDescriptors.data(), static_cast<int>(kProtoDescriptors.size()))) {
    return std::nullopt;
  }
  pb::DescriptorPool pool;
  for (const pb::FileDescriptorProto& file : files.file()) pool.BuildFile(file);
  const pb::Descriptor* const found = pool.FindMessageTypeByName(std::string(message));
  if (found == nullptr) return std::nullopt;
  pb::Value schema;
  Field(schema, "$schema") = TextValue("https://json-schema.org/draft/2020-12/schema");
  Field(schema, "title") = TextValue(std::string(title));
  Field(schema, "$ref") = TextValue("#/$defs/" + std::string(found->name()));
  pb::Value& definitions = Field(schema, "$defs");
  std::set<std::string> seen;
  Define(*found, definitions, seen);
  pb::util::JsonPrintOptions format;
  format.add_whitespace = true;
  std::string text;
  if (!pb::util::MessageToJsonString(schema, &text, format).ok()) return std::nullopt;
  return text;
}

}  // namespace mlxcomm::ctl
