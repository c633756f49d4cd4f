// Plans to install, uninstall and restart the service, made before anything is changed.
//
//   ServiceFacts ──Plan...()──▶ ServicePlan ──CarryOut──▶ this machine
//
// Pure functions, except CarryOut. A plan with problems must not be carried out; a plan is
// idempotent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/ctl/service/service_facts.h"

namespace mlxcomm::ctl {

struct ServiceStep {
  enum class Kind : std::uint8_t {
    kFolder,   // Create `path` if it is missing.
    kWrite,    // Write `text` to `path` atomically.
    kCopy,     // Copy `from` to `path`.
    kMove,     // Move `from` over `path`.
    kPutBack,  // If `from` exists, replace `path` by it, recursively.
    kRemove,   // Remove `path` recursively.
    kRemoveIfEmpty,
    kRun,          // Run `words`.
    kAwaitEnd,     // Run `words` until the exit code is not 0.
    kAwaitSocket,  // Wait until a daemon answers at `path`,
    kAwaitNext,    // until a daemon with a start other than `start` does,
    kAwaitStay     // until `start` reports that its restart was cancelled.
  };
  Kind kind = Kind::kRun;
  std::string path = {};
  std::string from = {};
  std::string text = {};
  std::uint32_t mode = 0;
  std::vector<std::string> words = {};
  bool may_fail = false;    // kRun: ignore failures.
  std::string remedy = {};  // If it fails.
  int patience_s = 0;       // kRun, kAwaitEnd, kAwaitSocket, kAwaitStay.
  std::uint64_t start = 0;  // kAwaitNext, kAwaitStay.
  std::uint32_t asked = 0;  // kAwaitNext: how often that daemon had been asked to restart before.
};

struct ServicePlan {
  std::vector<std::string> problems;  // Each with its remedy.
  std::vector<std::string> warnings;  // Do not prevent the plan.
  std::vector<ServiceStep> steps;
  std::vector<std::string> staged;  // Files to remove if a step fails.
  // If a step fails: steps to restore the previous files, and, from step `ends_at` on, which ends
  // the daemon, to start it again.
  std::vector<ServiceStep> restore;
  std::vector<ServiceStep> start_again;
  std::size_t ends_at = 0;
  std::vector<std::string> kept;  // Files that uninstall keeps.
};

// Runs the steps of a plan in order until one fails (carry_out.cc).
struct CarriedOut {
  std::size_t steps = 0;  // Number of successful steps.
  std::string trouble;    // Why the next step failed; empty: success.
  std::string restored;   // The result of the rollback; empty: none was necessary.
};

CarriedOut CarryOut(const ServicePlan& plan);

struct ServiceWishes {
  bool dry_run = false;  // Only plan, which does not need root.
  bool force = false;    // Even if jobs are running.
  bool no_wait = false;  // restart: do not wait until no job is left.
  bool cancel = false;   // restart: cancel a pending one.
  bool purge = false;    // uninstall: also remove configuration, key, identity and logs.
};

ServicePlan PlanInstall(const ServiceFacts& facts, const ServiceWishes& wishes);
ServicePlan PlanUninstall(const ServiceFacts& facts, const ServiceWishes& wishes);
ServicePlan PlanRestart(const ServiceFacts& facts, const ServiceWishes& wishes);

// "run systemctl daemon-reload"
std::string DescribeStep(const ServiceStep& step);
std::string RenderPlan(const ServicePlan& plan);
std::string RenderKept(const ServicePlan& plan);

// The command that `service logs` execs; empty on errors, with the reason in `why_not`.
std::vector<std::string> LogsCommand(const ServiceFacts& facts, int lines, bool follow,
                                     std::string& why_not);

inline constexpr char kHiddenConfig[] = "this user cannot read it: use sudo";

// All paths that uninstall may remove.
std::vector<std::string> RemovablePaths(ServiceManager manager);
// Folders in which install writes.
std::vector<std::string> WrittenFolders(ServiceManager manager);

}  // namespace mlxcomm::ctl
