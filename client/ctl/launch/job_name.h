// The name of a launch's job: short, and no other launch's of this user.
//
//   one node        "train" ─held by another launch on this machine, or in use─▶ "train-2" ─▶ ...
//   several nodes   "train-k3f9": another machine may launch the same script at the same moment
#pragma once

#include <string>

#include "mlxcomm/v1/diagnostics.pb.h"
#include "proto/system/file_descriptor.h"

namespace mlxcomm::ctl {

// The name is held for as long as this lives.
class JobName {
 public:
  // `base` as JobNameOf makes it; `status` is of the daemon, without nodes where there is none. `has_others`:
  // some ranks are on other hosts.
  static JobName Claim(const std::string& base, const v1::StatusReply& status, bool has_others);

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  FileDescriptor held_;
};

// Why a name that the user gives is refused; empty: it is not.
std::string WhyNoJobName(const std::string& name);

}  // namespace mlxcomm::ctl
