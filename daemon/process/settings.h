// Bounds and help of the configuration's fields, from their rows in config.proto (Setting).
#pragma once

#include <functional>
#include <string>

#include <google/protobuf/message.h>

namespace mlxcomm {

// Receives an error such as "port: expected 1 to 65535, got 0".
using ReportSetting =
    std::function<void(const google::protobuf::FieldDescriptor& field, const std::string& what)>;

// Reports numbers of this message that are outside their bounds; nested messages are not checked.
void CheckSettings(const google::protobuf::Message& message, const ReportSetting& report);

// Returns this message in text format: every field at its default, with help and bounds above.
// Fields without a default are commented out and show an example.
std::string WriteAnnotated(const google::protobuf::Descriptor& message);

}  // namespace mlxcomm
