// A file for people to send: never in another one's place, readable by its maker alone, and named after
// the time.
//
// Owner: functions. Thread: any. Memory: none.
#pragma once

#include <string>

namespace mlxcomm::ctl {

// False with errno set, also where there is a file of that name.
bool WriteNewFile(const std::string& path, const std::string& text);
// Local: "20260131-235959".
std::string TimeForName();

}  // namespace mlxcomm::ctl
