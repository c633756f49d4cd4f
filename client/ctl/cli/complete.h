// What may stand at the cursor. The scripts complete.bash, complete.zsh and complete.fish call the
// hidden verb __complete each time the key is pressed and show its answer, a line each:
//
//   --op=reduce<TAB>The operation    a word to replace the one that is being typed
//   :files, :folders                 the shell's own; behind the '=' of the word, if it has one
//   :program 4                       a program with arguments for the shell to complete; behind 4 words
//   :hint TEXT                       what belongs there, where there are no values to offer
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "client/ctl/cli/command_table.h"

namespace mlxcomm::ctl {

// Names of the nodes that the daemon behind the socket (empty: the usual one) knows; none if it
// does not answer at once.
using NodeNames = std::function<std::vector<std::string>(const std::string& socket_path)>;

// `words` are a command line, mlxcommctl first; the last one, which may be empty, is being typed.
std::vector<std::string> Complete(const Command& top, std::span<const std::string> words,
                                  const NodeNames& nodes);

}  // namespace mlxcomm::ctl
