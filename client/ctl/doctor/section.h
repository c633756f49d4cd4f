// A part of doctor and bugreport that has a folder of its own, like a transport beside TCP;
// sections.cc lists them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "client/ctl/doctor/facts.h"
#include "client/ctl/doctor/finding.h"

namespace mlxcomm::ctl {

struct Section {
  void (*collect)(SystemFacts& facts);
  void (*check)(const Facts& facts, Findings& findings);
  std::span<const FindingKind> (*kinds)();
  // bugreport --NAME adds NAME.txt, with the trials of `devices` and the output of programs.
  const char* name;
  const char* devices;
  const char* footer;
  std::string (*try_devices)(const std::string& config_file);
  std::vector<std::vector<std::string>> (*programs)();
};

std::span<const Section* const> Sections();

}  // namespace mlxcomm::ctl
