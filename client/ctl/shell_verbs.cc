// The verbs for shells and programs: completion and schema. They ask no daemon.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "client/ctl/command_line.h"
#include "client/ctl/command_table.h"
#include "client/ctl/json_schema.h"
#include "client/ctl/verbs.h"
#include "client/ctl/write_completion.h"

namespace mlxcomm::ctl {
namespace {

int Write(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  std::fprintf(stderr, "mlxcommctl: cannot write: %s\n", std::strerror(errno));
  return kExitFailed;
}

}  // namespace

int RunCompletion(const CompletionOptions& options, const Command& table) {
  if (options.json) return Write(TableJson(table));
  if (options.shell == "bash") return Write(BashCompletion(table));
  if (options.shell == "zsh") return Write(ZshCompletion(table));
  if (options.shell == "fish") return Write(FishCompletion(table));
  std::fputs("mlxcommctl: completion for which shell? bash, zsh or fish\n", stderr);
  return kExitUsage;
}

int RunSchema(const SchemaOptions& options) {
  std::string verb;
  for (const std::string& word : options.verb) verb += (verb.empty() ? "" : " ") + word;
  if (!verb.empty()) {
    if (const std::optional<std::string> schema = SchemaOf(verb)) return Write(*schema);
  }
  std::string names;
  for (const VerbSchema& schema : VerbSchemas()) {
    if (options.json) {
      names += (names.empty() ? "" : ", ") + ("\"" + std::string(schema.verb) + "\"");
    } else {
      names += std::string(schema.verb) + "\n";
    }
  }
  if (verb.empty()) return Write(options.json ? "{\"verbs\": [" + names + "]}\n" : names);
  std::fprintf(stderr, "mlxcommctl: no schema of \"%s\": expected one of these verbs\n%s",
               verb.c_str(), names.c_str());
  return kExitUsage;
}

void AddCompletion(CLI::App& app, Verbs& verbs) {
  const auto made = std::make_shared<CompletionOptions>();
  CompletionOptions& options = *made;
  CLI::App* const completion = app.add_subcommand(
      "completion", "Completion for a shell: source <(mlxcommctl completion bash)");
  completion->add_option("shell", options.shell, "Which shell")->type_name("{bash,zsh,fish}");
  completion->add_flag("--json", options.json, "For programs: every verb and option");
  verbs.Add(*completion, [made, &app] { return RunCompletion(*made, TableOf(app)); });
}

void AddSchema(CLI::App& app, Verbs& verbs) {
  const auto made = std::make_shared<SchemaOptions>();
  SchemaOptions& options = *made;
  CLI::App* const schema =
      app.add_subcommand("schema", "The JSON Schema of what a verb's --json prints");
  schema->add_option("verb", options.verb, "The verb (shows which there are)");
  schema->add_flag("--json", options.json, "For programs: which verbs there are");
  verbs.Add(*schema, [made] { return RunSchema(*made); });
}

}  // namespace mlxcomm::ctl
