// The verbs completion, which prints a shell's script, and __complete, which the script calls.
#include <memory>

#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/command_table.h"
#include "client/ctl/cli/complete.h"
#include "client/ctl/cli/embedded.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/cli/text.h"
#include "client/ctl/daemon/daemon_call.h"

namespace mlxcomm::ctl {
namespace {

struct CompletionOptions {
  std::string shell;
  bool json = false;
};

int RunCompletion(const CompletionOptions& options, const CLI::App& app) {
  constexpr char kWhat[] = "completion";
  if (options.json) return WriteOut(TableJson(TableOf(app)), kWhat);
  if (options.shell == "bash") return WriteOut(std::string(kCompleteBash), kWhat);
  if (options.shell == "zsh") return WriteOut(std::string(kCompleteZsh), kWhat);
  if (options.shell == "fish") return WriteOut(std::string(kCompleteFish), kWhat);
  if (options.shell.empty()) return Fail(kExitUsage, "completion: name a shell: bash, zsh or fish");
  return Fail(kExitUsage, "no completion for " + options.shell +
                              ExpectedOneOf(options.shell, "bash, zsh, fish"));
}

// The timeout of the connection and of the reply, because a person waits. A daemon replies within
// 300 ms even if nodes are silent.
constexpr std::uint64_t kPatienceNs = 450'000'000;

std::vector<std::string> NamesOfNodes(const std::string& socket_path) {
  v1::StatusReply status;
  std::vector<std::string> names;
  if (!FetchStatus(socket_path, status, kPatienceNs).ok()) return names;
  for (const v1::NodeStatus& node : status.nodes()) names.push_back(node.name());
  return names;
}

int RunComplete(const CLI::App& verb, const CLI::App& app) {
  std::string text;
  for (const std::string& line : Complete(TableOf(app), verb.remaining(), NamesOfNodes))
    text += line + "\n";
  return WriteOut(text, "completion");
}

}  // namespace

Run AddCompletion(CLI::App& completion, const Invocation& invocation) {
  const auto made = std::make_shared<CompletionOptions>();
  completion.add_option("shell", made->shell, "The shell")->type_name("{bash,zsh,fish}");
  completion.add_flag("--json", made->json, "Print JSON: every verb and option");
  return [made, &app = invocation.app] { return RunCompletion(*made, app); };
}

Run AddComplete(CLI::App& complete, const Invocation& invocation) {
  complete.prefix_command();  // All words, even -h, belong to another command line.
  complete.set_help_flag();
  return [&complete, &app = invocation.app] { return RunComplete(complete, app); };
}

}  // namespace mlxcomm::ctl
