// Outputs against schemas are tests/shell/test_json_output.py's.
#include "client/ctl/json_schema.h"

#include <gmock/gmock.h>
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

TEST(JsonSchemaTest, IsThereForEveryVerbThatIsListed) {
  for (const VerbSchema& schema : VerbSchemas()) {
    ASSERT_TRUE(SchemaOf(schema.verb).has_value()) << schema.verb;
    EXPECT_EQ(Parsed(*SchemaOf(schema.verb)).fields().at("$schema").string_value(),
              "https://json-schema.org/draft/2020-12/schema")
        << schema.verb;
  }
  EXPECT_FALSE(SchemaOf("nothing").has_value());
  EXPECT_FALSE(SchemaOfMessage("mlxcomm.v1.Nothing", "").has_value());
}

TEST(JsonSchemaTest, DefinesEachMessageOnceWithTheCommentsOfItsFile) {
  const Struct schema = Parsed(*SchemaOfMessage("mlxcomm.v1.StatusReply", "title"));
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
