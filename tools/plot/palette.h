// Colours: one per kind of tensor, and a scale for sizes where kinds are not known.
//
// The kinds' are Paul Tol's "bright" scheme, which people who do not see all colours can tell apart, too; the
// scale is an approximation of viridis, whose lightness grows evenly.
#pragma once

#include "liballoc/wire/trace.h"
#include "tools/plot/canvas.h"

namespace terrace::plot {

Color color_of(wire::TensorKind kind);
inline constexpr wire::TensorKind all_kinds[] = {wire::TensorKind::weight,   wire::TensorKind::optimizer,
                                                 wire::TensorKind::input,    wire::TensorKind::activation,
                                                 wire::TensorKind::gradient, wire::TensorKind::workspace,
                                                 wire::TensorKind::other};

// For a share from 0 to 1.
Color color_on_scale(double share);

}  // namespace terrace::plot
