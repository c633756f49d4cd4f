#include "client/ctl/cli/json_schema.h"

#include <array>
#include <set>
#include <string>
#include <string_view>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include "client/ctl/cli/embedded.h"
#include "mlxcomm/v1/ctl.pb.h"

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

// The .proto file's comment: before the field, or behind it on its line.
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

template <typename Texts>
pb::Value ListOf(const Texts& texts) {
  pb::Value list;
  for (const auto& text : texts) *list.mutable_list_value()->add_values() = TextValue(text);
  return list;
}

// google.protobuf.Struct and Value are JSON themselves, and have no fields to describe.
bool IsFreeJson(const pb::Descriptor& message) {
  return message.file()->name() == pb::Struct::descriptor()->file()->name();
}

// As protobuf prints it: 64-bit numbers as strings; a float may be "NaN" or "Infinity".
pb::Value OneOf(const pb::FieldDescriptor& field) {
  using Kind = pb::FieldDescriptor;
  pb::Value schema;
  Object(schema);
  const v1::JsonForm& form = field.options().GetExtension(v1::json);
  if (!form.pattern().empty()) Field(schema, "pattern") = TextValue(form.pattern());
  if (form.values_size() > 0) Field(schema, "enum") = ListOf(form.values());
  if (form.type_size() > 0) {
    Field(schema, "type") = ListOf(form.type());
    return schema;
  }
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
    case Kind::CPPTYPE_DOUBLE:
      Field(schema, "type") = ListOf(std::array{"number", "string"});
      break;
    case Kind::CPPTYPE_STRING: Field(schema, "type") = TextValue("string"); break;
    case Kind::CPPTYPE_ENUM: {
      auto& names = *Field(schema, "enum").mutable_list_value();
      for (int i = 0; i < field.enum_type()->value_count(); ++i) {
        *names.add_values() = TextValue(field.enum_type()->value(i)->name());
      }
      break;
    }
    case Kind::CPPTYPE_MESSAGE:
      if (field.message_type()->full_name() == "google.protobuf.Struct")
        Field(schema, "type") = TextValue("object");
      if (IsFreeJson(*field.message_type())) break;
      Field(schema, "$ref") = TextValue("#/$defs/" + std::string(field.message_type()->name()));
      break;
  }
  return schema;
}

pb::Value FieldSchema(const pb::FieldDescriptor& field) {
  pb::Value schema;
  if (field.is_repeated()) {
    Field(schema, "type") = TextValue("array");
    Field(schema, "items") = OneOf(field);
  } else {
    schema = OneOf(field);
  }
  Describe(schema, CommentOf(field));
  return schema;
}

// Every field is printed except messages that are not set.
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
    if (!field.has_presence()) *required.add_values() = TextValue(field.name());
  }
  Field(schema, "additionalProperties").set_bool_value(false);
  return schema;
}

// The message and all messages in it, by their names.
void Define(const pb::Descriptor& message, pb::Value& definitions, std::set<std::string>& seen) {
  if (IsFreeJson(message) || !seen.insert(std::string(message.name())).second) return;
  Field(definitions, std::string(message.name())) = MessageSchema(message);
  for (int i = 0; i < message.field_count(); ++i) {
    const pb::Descriptor* const below = message.field(i)->message_type();
    if (below != nullptr) Define(*below, definitions, seen);
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
  pb::Value schema;
  Field(schema, "$schema") = TextValue("https://json-schema.org/draft/2020-12/schema");
  Field(schema, "title") = TextValue(title);
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
