// A message of the stream that a browser's EventSource reads. Pure.
#pragma once

#include <string>
#include <string_view>

namespace mlxcomm::ctl {

// Of `data` each line is one of the message's: a text cannot end the message, nor begin another.
std::string ServerSentEvent(std::string_view name, std::string_view data);

}  // namespace mlxcomm::ctl
