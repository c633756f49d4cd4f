// mlxcommctl service: installs, uninstalls and restarts mlxcommd as a service; shows its status and
// log.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "client/ctl/cli/command_line.h"
#include "client/ctl/cli/installed_files.h"
#include "client/ctl/cli/json_text.h"
#include "client/ctl/cli/output.h"
#include "client/ctl/service/collect_service.h"
#include "client/ctl/service/service_files.h"
#include "client/ctl/service/service_plan.h"
#include "mlxcomm/v1/ctl.pb.h"

namespace mlxcomm::ctl {
namespace {

constexpr int kLinesMax = 1'000'000;

struct ServiceOptions {
  ServiceWishes wishes;
  std::string program;
  std::string root;
  std::string called;
  int lines = 50;
  bool follow = false;
  bool json = false;
};

using Planner = ServicePlan (*)(const ServiceFacts&, const ServiceWishes&);

ServicePlaces OfThisMachine(const ServiceOptions& options) {
  ServicePlaces places;
  places.own_path = OwnPath(options.called);
  return places;
}

// `trouble`: why the root is invalid.
ServicePlaces PlacesOf(const ServiceOptions& options, bool to_install, std::string& trouble) {
  ServicePlaces places = OfThisMachine(options);
  places.program = options.program;
  places.to_install = to_install;
  if (options.root.empty()) return places;
  places.only_files = true;
  std::error_code error;
  const std::filesystem::path root = std::filesystem::absolute(options.root, error);
  if (error) {
    trouble = absl::StrCat("--root ", options.root, ": ", error.message());
    return places;
  }
  places.root = root.lexically_normal().string();
  while (!places.root.empty() && places.root.back() == '/') places.root.pop_back();
  return places;
}

const char* NameOf(ServiceManager manager) {
  return manager == ServiceManager::kSystemd ? "systemd" : "launchd";
}

int PrintReport(const ServiceFacts& facts, const ServicePlan& plan, const ServiceOptions& options,
                const char* action, const CarriedOut& done) {
  v1::ServiceReport report;
  report.set_action(action);
  report.set_manager(NameOf(facts.manager));
  report.set_dry_run(options.wishes.dry_run);
  for (std::size_t number = 0; number < plan.steps.size(); ++number) {
    v1::ServiceStep& step = *report.add_steps();
    step.set_what(DescribeStep(plan.steps[number]));
    step.set_done(number < done.steps);
  }
  for (const std::string& problem : plan.problems) report.add_problems(problem);
  if (!done.trouble.empty()) report.add_problems(done.trouble);
  if (!done.restored.empty()) report.add_problems(done.restored);
  for (const std::string& path : plan.kept) report.add_kept(path);
  return WriteOut(JsonOf(std::move(report)), "report");
}

void WriteProblem(const std::string& what) {
  std::fprintf(stderr, "mlxcommctl: %s\n", what.c_str());
}

// The text for a successful change.
std::string SuccessText(const ServiceFacts& facts, const ServicePlan& plan,
                        const ServiceOptions& options, const std::string& action) {
  if (action == "uninstall") {
    return absl::StrCat("mlxcommd is not installed as a service",
                        plan.steps.empty() ? "" : " any longer",
                        facts.only_files ? absl::StrCat(" below ", facts.root, "/") : "", ".\n",
                        SaysKeepsPrograms(facts.definition)
                            ? absl::StrCat("The programs in ", facts.root, kServiceFolder,
                                           " were there before, and are kept.\n")
                            : "",
                        RenderKept(plan));
  }
  const std::string named = absl::StrCat("mlxcommd ", facts.program_version);
  std::string kept;
  if (facts.in_place && action == "install") {
    kept = absl::StrCat("The programs in ", facts.root, kServiceFolder, " (", facts.program_version,
                        ") were kept. To upgrade, call the newer mlxcommctl by its path.\n");
  }
  if (facts.only_files) {
    return absl::StrCat("The service's files (", named, ") are below ", facts.root, "/.\n", kept);
  }
  if (options.wishes.cancel) return "The restart was cancelled.\n";
  if (action == "restart" && options.wishes.no_wait && facts.start != 0) {
    return named + " starts when no job is left; mlxcommctl status shows it.\n";
  }
  if (action == "restart") return named + " is running; see mlxcommctl status.\n";
  std::string text = absl::StrCat(
      named, " is running as a service; see mlxcommctl status.\nIts configuration is ",
      kServiceConfig,
      "; after a change run mlxcommctl service restart\nIt serves all users; each sees "
      "only their own jobs. To serve only root, add clients { all_users: false }.\n");
  absl::StrAppend(&text, kept);
  if (!facts.there.contains(kServiceKey)) {
    absl::StrAppend(&text,
                    "It has no key and so no links: run mlxcommctl cluster create or join.\n");
  }
  return text;
}

int Change(const ServiceOptions& options, const char* action, Planner planner) {
  std::string trouble;
  const ServicePlaces places = PlacesOf(options, std::string_view(action) == "install", trouble);
  if (!trouble.empty()) return Fail(kExitFailed, trouble);
  const ServiceFacts facts = CollectService(places);
  const ServicePlan plan = planner(facts, options.wishes);
  for (const std::string& warning : plan.warnings) WriteProblem("warning: " + warning);
  const bool dry_run = options.wishes.dry_run;
  for (const std::string& problem : plan.problems)
    WriteProblem((dry_run ? "it would fail: " : "") + problem);
  CarriedOut done;
  if (plan.problems.empty() && !dry_run) {
    done = CarryOut(plan);
  } else if (!dry_run) {
    WriteProblem("nothing was changed");
  }
  if (!done.trouble.empty()) WriteProblem(done.trouble);
  if (!done.restored.empty()) WriteProblem(done.restored);
  const bool well = plan.problems.empty() && done.trouble.empty();
  if (options.json) {
    const int written = PrintReport(facts, plan, options, action, done);
    return well ? written : kExitFailed;
  }
  std::string text;
  if (dry_run) {
    text = plan.steps.empty()
               ? "Nothing to do.\n"
               : absl::StrCat(plan.problems.empty() ? "It would:\n" : "Otherwise it would:\n",
                              RenderPlan(plan), RenderKept(plan));
  } else if (well) {
    text = SuccessText(facts, plan, options, action);
  }
  const int written = WriteOut(text, "report");
  return well ? written : kExitFailed;
}

int ShowStatus(const ServiceOptions& options) {
  const ServiceFacts facts = CollectService(OfThisMachine(options));
  v1::ServiceStatus status;
  status.set_manager(NameOf(facts.manager));
  status.set_installed(facts.is_installed || facts.is_packaged);
  status.set_packaged(facts.is_packaged);
  status.set_enabled(facts.is_enabled);
  status.set_running(facts.is_running);
  status.set_answers(facts.socket_answers);
  if (status.installed()) {
    status.set_definition(facts.is_packaged ? kSystemdUnit : DefinitionPath(facts.manager));
    status.set_program(facts.program);
  }
  status.set_version(facts.program_version);
  status.set_config(facts.config.has_value() || facts.config_is_hidden ? kServiceConfig : "");
  status.set_config_trouble(facts.config_is_hidden ? kHiddenConfig : facts.config_trouble);
  status.set_socket(facts.socket);
  const int code = facts.is_running && facts.socket_answers ? 0 : kExitNoDaemon;
  if (options.json) {
    const int written = WriteOut(JsonOf(std::move(status)), "status");
    return written != 0 ? written : code;
  }
  const auto word = [](bool is_so, const char* what) {
    return absl::StrCat(is_so ? "" : "not ", what);
  };
  std::string text =
      absl::StrCat("service        ", word(status.installed(), "installed"), ", ",
                   word(status.enabled(), "enabled"), ", ", word(status.running(), "running"), " (",
                   NameOf(facts.manager), ")\n");
  const auto row = [&text](const char* name, const std::string& value) {
    if (!value.empty()) absl::StrAppend(&text, name, value, "\n");
  };
  row("definition     ", status.definition());
  row("program        ",
      status.program().empty() ? "" : absl::StrCat(status.program(), " ", status.version()));
  row("configuration  ", status.config());
  row("               ", status.config_trouble());
  row("socket         ", absl::StrCat(status.socket(), status.answers() ? "" : " (no answer)"));
  const int written = WriteOut(text, "status");
  return written != 0 ? written : code;
}

int ShowLogs(const ServiceOptions& options) {
  const ServiceFacts facts = CollectService(OfThisMachine(options));
  std::string why_not;
  std::vector<std::string> words = LogsCommand(facts, options.lines, options.follow, why_not);
  if (words.empty()) return Fail(kExitFailed, why_not);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers[0], pointers.data());
  return Fail(kExitFailed, absl::StrCat(words[0], ": ", std::strerror(errno)));
}

std::shared_ptr<ServiceOptions> Made(const Invocation& invocation) {
  auto made = std::make_shared<ServiceOptions>();
  made->called = invocation.called;
  return made;
}

void AddChange(CLI::App& verb, ServiceOptions& options) {
  verb.add_flag("--dry-run", options.wishes.dry_run, "Show the steps without running them");
  verb.add_flag("--force", options.wishes.force, "Do not wait for jobs; they end with the daemon");
  verb.add_flag("--json", options.json, "Print JSON: the steps, and what blocks them");
}

void AddRoot(CLI::App& verb, ServiceOptions& options, const char* what) {
  verb.add_option("--root", options.root, what)->type_name("DIR")->check(NotEmpty("a folder"));
}

}  // namespace

Run AddServiceInstall(CLI::App& verb, const Invocation& invocation) {
  const auto made = Made(invocation);
  AddChange(verb, *made);
  verb.add_option("--program", made->program,
                  "mlxcommd to install (the one beside this mlxcommctl)")
      ->type_name("FILE")
      ->check(NotEmpty("a program"));
  AddRoot(verb, *made, "Install the files below this folder, for packages");
  verb.footer(
      R"man(Uses systemd or launchd. Checks everything first, and changes nothing if a check
fails. An existing configuration is kept. A newer program is run once before it replaces
the old one, which is restored if the new daemon does not answer.

To upgrade, call the newer mlxcommctl by its path, because sudo finds the installed one:
  sudo "$(command -v mlxcommctl)" service install)man");
  return [made] { return Change(*made, "install", PlanInstall); };
}

Run AddServiceUninstall(CLI::App& verb, const Invocation& invocation) {
  const auto made = Made(invocation);
  AddChange(verb, *made);
  verb.add_flag("--purge", made->wishes.purge, "Remove configuration, key, identity and logs, too");
  AddRoot(verb, *made, "Remove the files below this folder");
  verb.footer("Keeps configuration, key, identity and logs, and lists them.");
  return [made] { return Change(*made, "uninstall", PlanUninstall); };
}

Run AddServiceRestart(CLI::App& verb, const Invocation& invocation) {
  const auto made = Made(invocation);
  AddChange(verb, *made);
  CLI::Option* const no_wait = verb.add_flag(
      "--no-wait", made->wishes.no_wait, "Return at once; mlxcommd restarts when no job is left");
  verb.add_flag("--cancel", made->wishes.cancel, "Cancel a pending or refused restart")
      ->excludes(no_wait)
      ->excludes("--force");
  verb.footer(
      R"(Checks program and configuration first. No job is lost: the daemon restarts when no process
uses it, and processes that connect meanwhile wait. With --no-wait, mlxcommctl status shows
how many processes it waits for, or why it did not restart.)");
  return [made] { return Change(*made, "restart", PlanRestart); };
}

Run AddServiceStatus(CLI::App& verb, const Invocation& invocation) {
  const auto made = Made(invocation);
  verb.add_flag("--json", made->json, "Print JSON (ServiceStatus in ctl.proto)");
  verb.footer("The exit code is 3 if it is not running or does not answer.");
  return [made] { return ShowStatus(*made); };
}

Run AddServiceLogs(CLI::App& verb, const Invocation& invocation) {
  const auto made = Made(invocation);
  verb.add_option("-n,--lines", made->lines, "Show this many of the last lines (50)")
      ->type_name("COUNT")
      ->check(CLI::Range(0, kLinesMax));
  verb.add_flag("-f,--follow", made->follow, "Print new lines until Ctrl-C");
  return [made] { return ShowLogs(*made); };
}

}  // namespace mlxcomm::ctl
