// The verb completion: the script for a shell. It asks no daemon.
#include <memory>

#include "client/ctl/command_line.h"
#include "client/ctl/command_table.h"
#include "client/ctl/output.h"
#include "client/ctl/write_completion.h"

namespace mlxcomm::ctl {
namespace {

struct CompletionOptions {
  std::string shell;  // bash, zsh, fish
  bool json = false;  // The table itself.
};

int RunCompletion(const CompletionOptions& options, const Command& table) {
  constexpr char kWhat[] = "completion";
  if (options.json) return WriteOut(TableJson(table), kWhat);
  if (options.shell == "bash") return WriteOut(BashCompletion(table), kWhat);
  if (options.shell == "zsh") return WriteOut(ZshCompletion(table), kWhat);
  if (options.shell == "fish") return WriteOut(FishCompletion(table), kWhat);
  return Fail(kExitUsage, "completion for which shell? bash, zsh or fish");
}

}  // namespace

Run AddCompletion(CLI::App& completion, const Invocation& invocation) {
  const auto made = std::make_shared<CompletionOptions>();
  completion.add_option("shell", made->shell, "Which shell")->type_name("{bash,zsh,fish}");
  completion.add_flag("--json", made->json, "For programs: every verb and option");
  return [made, &app = invocation.app] { return RunCompletion(*made, TableOf(app)); };
}

}  // namespace mlxcomm::ctl
