// The parts of the Python interface that have files of their own.
#pragma once
#include <nanobind/nanobind.h>

namespace hyperspn {

void bind_descent(nanobind::module_& m);

}  // namespace hyperspn
