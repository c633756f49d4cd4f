// The JSON Schema (draft 2020-12) of a message as json_text.h prints it. Its descriptions are the .proto
// file's comments, which the program embeds because generated code has none.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mlxcomm::ctl {

// `message` is a full name, "mlxcomm.v1.StatusReply". Returns nullopt if there is no such message.
std::optional<std::string> SchemaOfMessage(std::string_view message, std::string_view title);

}  // namespace mlxcomm::ctl
