// What may stand at the cursor. The scripts complete.bash, complete.zsh and complete.fish ask the hidden
// verb __complete at each press of the key and show what it answers, a line each:
//
//   --plan=ring<TAB>the ring    a word for the place of the one that is being typed
//   :files, :folders            the shell's own; behind the '=' of the word, if it has one
//   :program 4                  a program with arguments, which the shell completes; 4 words stand before it
//   :hint TEXT                  what belongs there, where nothing can be offered
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "client/ctl/cli/command_table.h"

namespace mlxcomm::ctl {

// Names of the nodes that the daemon behind the socket (empty: the usual one) knows; none if it says
// nothing at once.
using NodeNames = std::function<std::vector<std::string>(const std::string& socket_path)>;

// `words` are a command line, mlxcommctl first; the last one, which may be empty, is being typed.
std::vector<std::string> Complete(const Command& top, std::span<const std::string> words,
                                  const NodeNames& nodes);

}  // namespace mlxcomm::ctl
