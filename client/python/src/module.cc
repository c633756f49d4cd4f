// The extension mlxcomm._mlxcomm: joining, groups, failures for Python, counters. Functions that
// can fail return a failure (operation_error.h: AsTuple) as their last value, or None.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "client/mlx/group_impl.h"
#include "client/mlx/joining.h"
#include "client/mlx/operation_error.h"
#include "client/mlx/operation_task.h"
#include "client/mlx/queued_operations.h"
#include "client/mlx/result_memory.h"
#include "client/python/src/operation_bindings.h"
#include "client/python/src/raised_error.h"
#include "mlx/distributed/distributed.h"

namespace nb = nanobind;
using mlx::core::distributed::Group;
using mlxcomm::graph::AloneGroup;
using mlxcomm::graph::Connected;
using mlxcomm::graph::DaemonGroup;
using mlxcomm::graph::Describe;
using mlxcomm::python::AsTuple;

namespace {

DaemonGroup* OursOrNull(const Group& group) {
  return dynamic_cast<DaemonGroup*>(group.raw_group().get());
}

DaemonGroup& Ours(const Group& group) {
  DaemonGroup* const ours = OursOrNull(group);
  if (ours == nullptr) throw nb::value_error("expected a group of mlxcomm.init()");
  return *ours;
}

nb::object FailureOrNone(mlxcomm_code code, const mlxcomm_error& error,
                         const mlxcomm_group* group) {
  if (code == MLXCOMM_OK) return nb::none();
  // After a Ctrl-C Python's own handler decides what is raised.
  if (code == MLXCOMM_CANCELLED && PyErr_CheckSignals() != 0) throw nb::python_error();
  return AsTuple(Describe(code, error, group));
}

nb::tuple Join(const std::string& job, unsigned rank, unsigned size, const std::string& socket,
               std::uint64_t timeout_ns, std::uint64_t arena_bytes) {
  mlxcomm_error error{};
  std::shared_ptr<DaemonGroup> joined;
  mlxcomm_code code;
  {
    nb::gil_scoped_release unlocked;
    code = mlxcomm::graph::JoinJob(
        job, rank, size, {.socket = socket, .timeout_ns = timeout_ns, .arena_bytes = arena_bytes},
        joined, error);
  }
  if (code != MLXCOMM_OK) return nb::make_tuple(nb::none(), FailureOrNone(code, error, nullptr));
  return nb::make_tuple(Group(joined), nb::none());
}

// The new group (or None) and the failure (or None).
template <typename Make>
nb::tuple MakeGroup(const Group& group, Make make) {
  DaemonGroup& ours = Ours(group);
  mlxcomm_error error{};
  std::shared_ptr<DaemonGroup> made;
  mlxcomm_code code;
  {
    nb::gil_scoped_release unlocked;
    code = make(ours, made, error);
  }
  nb::object failure = FailureOrNone(code, error, ours.handle());
  if (made == nullptr) return nb::make_tuple(nb::none(), failure);
  return nb::make_tuple(Group(made), failure);
}

// The place that the launcher's variables give a program, unless it names one.
nb::tuple FindPlace(const std::string& job, std::optional<std::int64_t> rank,
                    std::optional<std::int64_t> size,
                    const std::optional<std::map<std::string, std::string>>& environment) {
  mlxcomm_place_options options;
  mlxcomm_place_options_init(&options);
  if (!job.empty()) options.job = job.c_str();
  options.rank = rank.value_or(-1);
  options.size = size.value_or(-1);
  if (environment) {
    options.lookup = [](void* context, const char* name) -> const char* {
      const auto& variables = *static_cast<const std::map<std::string, std::string>*>(context);
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    };
    options.lookup_context = const_cast<std::map<std::string, std::string>*>(&*environment);
  }
  mlxcomm_place place;
  mlxcomm_error error{};
  if (mlxcomm_find_place(&options, &place, &error) != MLXCOMM_OK)
    throw nb::value_error(error.message);
  return nb::make_tuple(std::string(place.job), place.rank, place.size, place.launched != 0);
}

void BindGroups(nb::module_& m) {
  m.def("find_place", &FindPlace, nb::arg("job"), nb::arg("rank").none(), nb::arg("size").none(),
        nb::arg("environment").none());
  m.def("join", &Join);
  m.def("why_results_are_copied", [](const Group& group, bool reads) {
    const std::shared_ptr<Connected> connected = Ours(group).joined()->connected;
    nb::gil_scoped_release unlocked;
    return mlxcomm::graph::WhyResultsAreCopied(connected, reads);
  });
  m.def("alone", [] { return Group(std::make_shared<AloneGroup>()); });
  m.def("is_ours", [](const Group& group) { return OursOrNull(group) != nullptr; });
  m.def("name",
        [](const Group& group) { return std::string(mlxcomm_group_name(Ours(group).handle())); });
  m.def("failure", [](const Group& group) {
    DaemonGroup* const ours = OursOrNull(group);
    if (ours == nullptr) return nb::object(nb::none());
    mlxcomm_error error{};
    const mlxcomm_code code = mlxcomm_group_failure(ours->handle(), &error);
    return code == MLXCOMM_OK ? nb::object(nb::none())
                              : nb::object(AsTuple(Describe(code, error, ours->handle())));
  });
  m.def("barrier", [](const Group& group, std::uint64_t timeout_ns) {
    DaemonGroup& ours = Ours(group);
    mlxcomm_error error{};
    mlxcomm_code code;
    {
      nb::gil_scoped_release unlocked;
      code = ours.Barrier(timeout_ns, error);
    }
    return FailureOrNone(code, error, ours.handle());
  });
  m.def("split", [](const Group& group, std::int32_t color, std::int32_t key,
                    const std::string& name, std::uint64_t timeout_ns) {
    return MakeGroup(group, [&](DaemonGroup& ours, auto& part, mlxcomm_error& error) {
      return ours.Split(color, key, name.empty() ? nullptr : name.c_str(), timeout_ns, part, error);
    });
  });
  m.def("shrink", [](const Group& group, std::uint64_t timeout_ns) {
    return MakeGroup(group, [&](DaemonGroup& ours, auto& rest, mlxcomm_error& error) {
      return ours.Shrink(timeout_ns, rest, error);
    });
  });
  m.def("leave", [](const Group& group, const std::string& why) {
    DaemonGroup& ours = Ours(group);
    nb::gil_scoped_release unlocked;
    mlxcomm_leave(ours.handle(), why.c_str());
  });
  // (queued, ended): waits at most this long until there are no operations that have not ended.
  m.def("await_none_queued", [](double seconds) {
    std::uint64_t ended = 0;
    std::uint64_t queued = 0;
    {
      nb::gil_scoped_release unlocked;
      queued = mlxcomm::graph::QueuedOperation::AwaitNone(
          std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000)), ended);
    }
    return nb::make_tuple(queued, ended);
  });
  m.def("set_timeout", [](const Group& group, std::uint64_t timeout_ns) {
    mlxcomm_group_set_timeout(Ours(group).handle(), timeout_ns);
  });
}

// Other threads go on while MLX's split waits.
void WaitWithoutPythonLock(const std::function<void()>& wait) {
  std::optional<nb::gil_scoped_release> released;
  if (PyGILState_Check() != 0) released.emplace();
  wait();
}

}  // namespace

NB_MODULE(_mlxcomm, m) {
  nb::module_::import_("mlx.core");  // Its types must be registered first.
  mlxcomm::graph::SetAroundWaits(WaitWithoutPythonLock);
  m.attr("version") = mlxcomm_version();
  mlxcomm::python::TranslateOperationErrors();
  BindGroups(m);
  mlxcomm::python::BindOperations(m);
  m.def("counters", [] {
    const auto& counters = mlxcomm::graph::GetCounters();
    nb::dict out;
    out["operations"] = counters.operations.load();
    out["inputs_copied"] = counters.inputs_copied.load();
    out["inputs_in_arena"] = counters.inputs_in_arena.load();
    out["results_copied"] = counters.results_copied.load();
    return out;
  });
}
