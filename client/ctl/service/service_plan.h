// What is done to make mlxcommd a service, to take it away, and to start it again: decided before
// anything is changed, so that where something is missing nothing has changed.
//
//   ServiceFacts ──Plan...()──▶ ServicePlan ──CarryOut──▶ this machine
//
// Pure functions, but for CarryOut. A plan with problems is not carried out. A plan may be carried out twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/ctl/service/service_facts.h"

namespace mlxcomm::ctl {

struct ServiceStep {
  enum class Kind : std::uint8_t {
    kFolder,   // Make `path`, unless it is there: then it keeps its mode.
    kWrite,    // Write `text` to `path`, at once or not at all.
    kCopy,     // Copy `from` to `path`.
    kMove,     // Move `from` over `path`.
    kPutBack,  // Where `from` is there, put it in the place of `path`, with all that is in it.
    kRemove,   // Remove `path`, with all that is in it.
    kRemoveIfEmpty,
    kRun,          // Run `words`.
    kAwaitEnd,     // Run `words` until it ends with a code other than 0.
    kAwaitSocket,  // Until a daemon answers at `path`.
    kAwaitNext,    // Until another start than `start` does.
    kAwaitStay     // Until `start` says that its restart was taken back.
  };
  Kind kind = Kind::kRun;
  std::string path = {};
  std::string from = {};
  std::string text = {};
  std::uint32_t mode = 0;
  std::vector<std::string> words = {};
  bool may_fail = false;    // kRun: what comes next decides.
  std::string remedy = {};  // Where it fails.
  int patience_s = 0;       // kRun, kAwaitEnd, kAwaitSocket, kAwaitStay.
  std::uint64_t start = 0;  // kAwaitNext, kAwaitStay, and
  std::uint32_t asked = 0;  // how often that one had been asked before.
};

struct ServicePlan {
  std::vector<std::string> problems;  // Each with its remedy.
  std::vector<std::string> warnings;  // What keeps nothing from being done.
  std::vector<ServiceStep> steps;
  std::vector<std::string> staged;  // What is to be removed where a step fails.
  // Where a step fails: what brings the files back that were there before; and, from step `ends_at` on, which
  // ends the daemon, what starts that again.
  std::vector<ServiceStep> restore;
  std::vector<ServiceStep> start_again;
  std::size_t ends_at = 0;
  std::vector<std::string> kept;  // Files that uninstall leaves.
};

// carry_out.cc: carries out the steps of a plan, in their order, until one fails.
struct CarriedOut {
  std::size_t steps = 0;  // That were done.
  std::string trouble;    // Why the next one failed; empty: all were done.
  std::string restored;   // What was done about it; empty: nothing had to be.
};

CarriedOut CarryOut(const ServicePlan& plan);

struct ServiceWishes {
  bool dry_run = false;  // Nothing will be carried out, so that nobody has to be root.
  bool force = false;    // Also while jobs run.
  bool no_wait = false;  // restart: asks for it, and does not wait until no job is left.
  bool cancel = false;   // restart: takes one back that waits.
  bool purge = false;    // uninstall: configuration, key, identity and logs, too.
};

ServicePlan PlanInstall(const ServiceFacts& facts, const ServiceWishes& wishes);
ServicePlan PlanUninstall(const ServiceFacts& facts, const ServiceWishes& wishes);
ServicePlan PlanRestart(const ServiceFacts& facts, const ServiceWishes& wishes);

// What `service logs` becomes: a program and its arguments. Empty: `why_not` says why.
std::vector<std::string> LogsCommand(const ServiceFacts& facts, int lines, bool follow,
                                     std::string& why_not);

// For a user who may not read the configuration.
inline constexpr char kHiddenConfig[] = "this user may not read it: run it with sudo";

// All paths that uninstall may remove, for ServiceFacts::there.
std::vector<std::string> RemovablePaths(ServiceManager manager);
// Folders in which install puts something, for ServiceFacts::trouble_with_folders.
std::vector<std::string> WrittenFolders(ServiceManager manager);

}  // namespace mlxcomm::ctl
