// Scripts by which a shell completes mlxcommctl's verbs, options and their values. Nothing is
// run while the user types: all is in the script.
//
// Each finds the verb among the words before the cursor (skipping options' values), then
// offers what belongs there; after `--` programs and files.
#pragma once

#include <string>

#include "client/ctl/command_table.h"

namespace mlxcomm::ctl {

std::string BashCompletion(const Command& top);
std::string ZshCompletion(const Command& top);
std::string FishCompletion(const Command& top);

}  // namespace mlxcomm::ctl
