// What each field of a message of the configuration takes and says of itself, by its row in config.proto
// (Setting): checked here, and written as an annotated file.
#pragma once

#include <functional>
#include <string>

#include <google/protobuf/message.h>

namespace mlxcomm {

// What is wrong with a field, "port: expected 1 to 65535, got 0".
using ReportSetting =
    std::function<void(const google::protobuf::FieldDescriptor& field, const std::string& what)>;

// Numbers of this message outside their bounds; messages within it are not looked at.
void CheckSettings(const google::protobuf::Message& message, const ReportSetting& report);

// A file in text format with every field of this message at its default, its help and bounds above it;
// fields without a default are shown by an example and commented out.
std::string WriteAnnotated(const google::protobuf::Descriptor& message);

}  // namespace mlxcomm
