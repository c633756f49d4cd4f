// The verbs for shells and programs: completion and schema. They ask no daemon.
#include <cerrno>
#include <cstdio>
#include <cstring>

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
  std::fprintf(stderr, "mlxcommctl: no schema of \"%s\": expected one of these verbs\n%s", verb.c_str(),
               names.c_str());
  return kExitUsage;
}

}  // namespace mlxcomm::ctl
