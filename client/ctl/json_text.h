// A daemon's answer for programs: JSON with the field names of the .proto file.
//
// Owner: none, a pure function. Thread: any. Memory: the text.
#pragma once

#include <string>

#include <google/protobuf/message.h>

#include "proto/types/failure.h"

namespace mlxcomm::ctl {

// Every field is present, also one that is empty; 64-bit numbers are strings.
Failure ToJson(const google::protobuf::Message& message, std::string& text);

}  // namespace mlxcomm::ctl
