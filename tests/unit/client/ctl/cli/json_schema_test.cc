// tests/shell/test_json_output.py checks outputs against schemas.
#include "client/ctl/cli/json_text.h"

#include <gtest/gtest.h>

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

namespace mlxcomm::ctl::json_schema_test {
namespace {

using google::protobuf::Struct;

Struct Parsed(const std::string& text) {
  Struct object;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(text, &object).ok());
  return object;
}

const Struct& At(const Struct& object, const char* name) {
  return object.fields().at(name).struct_value();
}

Struct SchemaOf(const std::string& message) {
  const auto schema = SchemaOfMessage("mlxcomm.v1." + message, "title");
  EXPECT_TRUE(schema.has_value()) << message;
  return Parsed(schema.value_or("{}"));
}

TEST(JsonSchemaTest, ExistsOnlyForMessages) {
  EXPECT_EQ(SchemaOf("SchemaList").fields().at("$schema").string_value(),
            "https://json-schema.org/draft/2020-12/schema");
  EXPECT_FALSE(SchemaOfMessage("mlxcomm.v1.Nothing", "").has_value());
}

// Why: the type alone does not say that a text is one of four words, or that a null is possible.
TEST(JsonSchemaTest, DescribesFieldsBeyondTheirTypes) {
  const Struct schema = SchemaOf("DoctorReport");
  const Struct& finding = At(At(At(schema, "$defs"), "DoctorFinding"), "properties");
  EXPECT_EQ(At(finding, "severity").fields().at("enum").list_value().values_size(), 4);
  EXPECT_EQ(At(finding, "code").fields().at("pattern").string_value(), "^MC[1-5][0-9]{2}$");
  const Struct bench = SchemaOf("BenchReport");
  const Struct& size = At(At(At(bench, "$defs"), "BenchSize"), "properties");
  const auto& types = At(size, "wrong").fields().at("type").list_value();
  ASSERT_EQ(types.values_size(), 2);
  EXPECT_EQ(types.values(0).string_value(), "integer");
  EXPECT_EQ(types.values(1).string_value(), "null");
  EXPECT_EQ(At(bench, "$defs").fields().count("Value"), 0u) << "that is JSON itself";
}

TEST(JsonSchemaTest, DefinesEachMessageOnceWithTheCommentsOfItsFile) {
  const Struct schema = SchemaOf("StatusReply");
  const Struct& node = At(At(schema, "$defs"), "NodeStatus");
  EXPECT_EQ(node.fields().at("additionalProperties").bool_value(), false);
  const Struct& properties = At(node, "properties");
  EXPECT_EQ(
      properties.fields().at("state").struct_value().fields().at("description").string_value(),
      "\"up\", \"draining\", \"connecting\", \"lost\"");
  EXPECT_EQ(At(properties, "pid").fields().at("type").string_value(), "string");
  EXPECT_EQ(At(properties, "answered").fields().at("type").string_value(), "boolean");
  EXPECT_EQ(At(At(properties, "links"), "items").fields().at("$ref").string_value(),
            "#/$defs/LinkStatus");
}

}  // namespace
}  // namespace mlxcomm::ctl::json_schema_test
