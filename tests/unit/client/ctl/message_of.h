// Messages of the daemon from protobuf's text form.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include <google/protobuf/text_format.h>

namespace mlxcomm::ctl {

// Sets what the text names, and adds to what is repeated.
template <typename Message>
void Add(const std::string& text, Message& message) {
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(text, &message)) << text;
}

template <typename Message>
Message MessageOf(const std::string& text) {
  Message message;
  Add(text, message);
  return message;
}

}  // namespace mlxcomm::ctl
