// A file for people to send: it never replaces another, only its maker can read it, and its name
// contains the time.
//
// Thread: any.
#pragma once

#include <string>

namespace mlxcomm::ctl {

// False with errno set, also where a file has that name already.
bool WriteNewFile(const std::string& path, const std::string& text);
// Local: "20260131-235959".
std::string TimeForName();

}  // namespace mlxcomm::ctl
