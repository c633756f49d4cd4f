#include <string>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/struct.pb.h>
#include <nlohmann/json.hpp>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/ctl/cli/embedded.h"
#include "client/ctl/cli/json_text.h"
#include "mlxcomm/v1/ctl.pb.h"

namespace mlxcomm::ctl {
namespace {

namespace pb = google::protobuf;
using nlohmann::json;

// Adds the .proto file's comment, before the field or after it on its line.
template <typename Described>
void Describe(const Described& described, json& schema) {
  pb::SourceLocation location;
  if (!described.GetSourceLocation(&location)) return;
  const std::vector<std::string> words =
      absl::StrSplit(location.leading_comments + " " + location.trailing_comments,
                     absl::ByAnyChar(" \n"), absl::SkipEmpty());
  if (!words.empty()) schema["description"] = absl::StrJoin(words, " ");
}

// google.protobuf.Struct and Value hold any JSON: there are no fields to describe.
bool IsFreeJson(const pb::Descriptor& message) {
  return message.file()->name() == pb::Struct::descriptor()->file()->name();
}

std::string ReferenceTo(const pb::Descriptor& message) {
  return "#/$defs/" + std::string(message.name());
}

// Protobuf prints 64-bit numbers as strings; a float may be "NaN" or "Infinity".
json OneOf(const pb::FieldDescriptor& field) {
  using Kind = pb::FieldDescriptor;
  json schema = json::object();
  const v1::JsonForm& form = field.options().GetExtension(v1::json);
  if (!form.pattern().empty()) schema["pattern"] = form.pattern();
  if (form.values_size() > 0) schema["enum"] = form.values();
  if (form.type_size() > 0) {
    schema["type"] = form.type();
    return schema;
  }
  switch (field.cpp_type()) {
    case Kind::CPPTYPE_BOOL: schema["type"] = "boolean"; break;
    case Kind::CPPTYPE_INT32: schema["type"] = "integer"; break;
    case Kind::CPPTYPE_UINT32:
      schema["type"] = "integer";
      schema["minimum"] = 0;
      break;
    case Kind::CPPTYPE_INT64:
    case Kind::CPPTYPE_UINT64:
      schema["type"] = "string";
      schema["pattern"] = field.cpp_type() == Kind::CPPTYPE_INT64 ? "^-?[0-9]+$" : "^[0-9]+$";
      break;
    case Kind::CPPTYPE_FLOAT:
    case Kind::CPPTYPE_DOUBLE: schema["type"] = {"number", "string"}; break;
    case Kind::CPPTYPE_STRING: schema["type"] = "string"; break;
    case Kind::CPPTYPE_ENUM:
      for (int i = 0; i < field.enum_type()->value_count(); ++i) {
        schema["enum"].push_back(std::string(field.enum_type()->value(i)->name()));
      }
      break;
    case Kind::CPPTYPE_MESSAGE:
      if (field.message_type()->full_name() == "google.protobuf.Struct") schema["type"] = "object";
      if (!IsFreeJson(*field.message_type())) schema["$ref"] = ReferenceTo(*field.message_type());
      break;
  }
  return schema;
}

json FieldSchema(const pb::FieldDescriptor& field) {
  json schema = OneOf(field);
  if (field.is_repeated()) schema = {{"type", "array"}, {"items", std::move(schema)}};
  Describe(field, schema);
  return schema;
}

// Every field is required except messages, which are printed only if they are set.
json MessageSchema(const pb::Descriptor& message) {
  json schema = {{"type", "object"},
                 {"properties", json::object()},
                 {"required", json::array()},
                 {"additionalProperties", false}};
  Describe(message, schema);
  for (int i = 0; i < message.field_count(); ++i) {
    const pb::FieldDescriptor& field = *message.field(i);
    schema["properties"][std::string(field.name())] = FieldSchema(field);
    if (!field.has_presence()) schema["required"].push_back(std::string(field.name()));
  }
  return schema;
}

// Adds the message and all messages in it.
void Define(const pb::Descriptor& message, json& definitions) {
  if (IsFreeJson(message) || definitions.contains(std::string(message.name()))) return;
  definitions[std::string(message.name())] = MessageSchema(message);
  for (int i = 0; i < message.field_count(); ++i) {
    const pb::Descriptor* const below = message.field(i)->message_type();
    if (below != nullptr) Define(*below, definitions);
  }
}

}  // namespace

std::optional<std::string> SchemaOfMessage(std::string_view message, std::string_view title) {
  pb::FileDescriptorSet files;
  if (!files.ParseFromArray(kProtoDescriptors.data(), static_cast<int>(kProtoDescriptors.size()))) {
    return std::nullopt;
  }
  pb::DescriptorPool pool;
  for (const pb::FileDescriptorProto& file : files.file()) pool.BuildFile(file);
  const pb::Descriptor* const found = pool.FindMessageTypeByName(std::string(message));
  if (found == nullptr) return std::nullopt;
  json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", title},
                 {"$ref", ReferenceTo(*found)},
                 {"$defs", json::object()}};
  Define(*found, schema["$defs"]);
  return schema.dump(1) + "\n";
}

}  // namespace mlxcomm::ctl
