// The JSON Schema (draft 2020-12) of a message as json_text.h prints it, with the comments of its
// .proto file as descriptions. The program contains the files as descriptors (embedded.h), because
// the generated code has no comments.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mlxcomm::ctl {

// For "mlxcomm.v1.StatusReply"; nothing: there is no such message.
std::optional<std::string> SchemaOfMessage(std::string_view message, std::string_view title);

}  // namespace mlxcomm::ctl
