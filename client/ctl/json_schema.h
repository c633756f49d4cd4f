// The JSON Schema of what `mlxcommctl VERB --json` prints. For a daemon's answer it is made
// of the message's descriptor, with the comments of the .proto file as descriptions; for what
// mlxcommctl makes itself it is a document of client/ctl/schema.
//
//   proto/mlxcomm/v1/*.proto ──protoc──▶ descriptors with comments ─┐
//   client/ctl/schema/*.json ───────────────────────────────────────┴▶ embedded (embed.cmake)
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlxcomm::ctl {

// A verb, and where its schema is: a message's full name, or the document itself.
struct VerbSchema {
  std::string_view verb;  // "status", "cluster create"
  std::string_view message;
  std::string_view document;
};

const std::vector<VerbSchema>& VerbSchemas();
// Nothing: no such verb, or it prints no JSON.
std::optional<std::string> SchemaOf(std::string_view verb);
// Nothing: no such message.
std::optional<std::string> SchemaOfMessage(std::string_view message, std::string_view title);

}  // namespace mlxcomm::ctl
