// Completions at the cursor. The scripts complete.bash, complete.zsh and complete.fish call the
// hidden verb __complete at each key press and show the lines that it prints:
//
//   --op=reduce<TAB>The operation    replaces the word being typed
//   :files, :folders                 the shell completes a path, after the word's '=' if it has one
//   :program 4                       after 4 words, the shell completes a program and its arguments
//   :hint TEXT                       describes the value, if there are none to offer
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "client/ctl/cli/command_table.h"

namespace mlxcomm::ctl {

// The nodes that the daemon at the socket (empty: the default) knows; none if it does not answer at
// once.
using NodeNames = std::function<std::vector<std::string>(const std::string& socket_path)>;

// `words` is a command line from mlxcommctl on; the last word, which may be empty, is being typed.
std::vector<std::string> Complete(const Command& top, std::span<const std::string> words,
                                  const NodeNames& nodes);

}  // namespace mlxcomm::ctl
