/* What headers are written from, part by part: c_header.py puts names, numbers and other
   parts where @...@ stands, and the name of the header where NAME_ and UPPER_ stand. */

/// labels
static @HELD@ NAME_labels[@N@] = { @CELLS@ };

/* Label of an answer; of none, such as -1, UPPER_NO_LABEL. */
static inline @KIND@NAME_label(int answer)
{
  return answer < 0 || answer >= @N@ ? UPPER_NO_LABEL : NAME_labels[answer];
}

/// numbers
/* By their bits: -ffast-math takes every float for a finite number. */
static inline uint32_t NAME_bits(float value)
{
  union { float value; uint32_t bits; } one;
  one.value = value;
  return one.bits & 0x7fffffffu;
}

static inline int NAME_is_nan(float value)
{
  return NAME_bits(value) > 0x7f800000u;
}

static inline int NAME_all_finite(const float *values, int n)
{
  int i, finite = 1;
  for (i = 0; i < n; i++)
    finite &= NAME_bits(values[i]) < 0x7f800000u;
  return finite;
}

/* No answer: margins are NaN. */
static inline int NAME_refuse(float *margins, float *least)
{
  union { uint32_t bits; float value; } nan;
  int c;
  nan.bits = 0x7fc00000u;
  for (c = 0; c < UPPER_CLASSES; c++)
    margins[c] = nan.value;
  *least = nan.value;
  return UPPER_REFUSED;
}

/// dot
static inline float NAME_dot(const float *a, const float *b, int n)
{
  float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  int i = 0;
  for (; i + 3 < n; i += 4) {
    s0 += a[i] * b[i];
    s1 += a[i + 1] * b[i + 1];
    s2 += a[i + 2] * b[i + 2];
    s3 += a[i + 3] * b[i + 3];
  }
  for (; i < n; i++)
    s0 += a[i] * b[i];
  return (s0 + s1) + (s2 + s3);
}

/// prepare
static inline void NAME_@AS@(const float *x, float *z)
{
  int i;
  for (i = 0; i < @FEATURES@; i++)
    z[i] = x[i];
@BODY@
}

/// unit
  {
    /* By the largest first, lest sums overflow. */
    float top = 0, length = 0;
    for (i = 0; i < @WIDTH@; i++)
      top = fabsf(z[i]) > top ? fabsf(z[i]) : top;
    if (top > 0)
      for (i = 0; i < @WIDTH@; i++)
        @LENGTH@;
    length = @ROOT@;
    if (top * length >= @SHORT@)
      for (i = 0; i < @WIDTH@; i++)
        z[i] = z[i] / top / length;
  }

/// smooth
  {
    float rows[@SIZE@];
    int j, k, m;
    for (j = 0; j < @H@; j++)
      for (k = 0; k < @W@; k++)
        for (m = 0; m < @C@; m++) {
          float sum = 0;
          for (i = 0; i < @W@; i++)
            sum += @ACROSS@[k * @W@ + i] * (z[(j * @W@ + i) * @C@ + m] - @BACK@);
          rows[(j * @W@ + k) * @C@ + m] = sum;
        }
    for (j = 0; j < @H@; j++)
      for (k = 0; k < @ROW@; k++) {
        float sum = 0;
        for (i = 0; i < @H@; i++)
          sum += @DOWN@[j * @H@ + i] * rows[i * @ROW@ + k];
        z[j * @ROW@ + k] = sum + @BACK@;
      }
  }

/// pick
  {
    float picked[@N@];
    for (i = 0; i < @N@; i++)
      picked[i] = z[@COLUMNS@[i]];
    for (i = 0; i < @N@; i++)
      z[i] = picked[i];
  }

/// join
  {
    float joined[@ROOM@];
@CALLS@
    for (i = 0; i < @N@; i++)
      z[i] = joined[i];
  }

/// convolve_bank
/* Shares of time for which a signal, zero beyond its ends, has the shapes of a bank. */
static inline void NAME_@AS@_bank(const float *x, int length, int dilation, int levels,
  const float *weights, const float *low, const float *rate, float *found)
{
  float sums[@LEVELS@][@KERNELS@], c[@KERNELS@];
  int t, m, j, k, l;
  for (l = 0; l < levels; l++)
    for (k = 0; k < @KERNELS@; k++)
      sums[l][k] = 0;
  for (t = 0; t < length; t++) {
    for (k = 0; k < @KERNELS@; k++)
      c[k] = 0;
    for (j = 0; j < @TAPS@; j++) {
      const int at = t + (j - @HALF@) * dilation;
      if (at < 0 || at >= length)
        continue;
      for (m = 0; m < @CHANNELS@; m++) {
        const float value = x[at * @CHANNELS@ + m];
        const float *w = weights + (m * @TAPS@ + j) * @KERNELS@;
        for (k = 0; k < @KERNELS@; k++)
          c[k] += value * w[k];
      }
    }
    for (l = 0; l < levels; l++)
      for (k = 0; k < @KERNELS@; k++) {
        float u = (c[k] - low[l * @KERNELS@ + k]) * rate[l * @KERNELS@ + k];
        u = u < 0 ? 0 : u;
        sums[l][k] += u > 1 ? 1 : u;
      }
  }
  for (l = 0; l < levels; l++)
    for (k = 0; k < @KERNELS@; k++)
      found[k * levels + l] = sums[l][k] / (float)length;
}

/// convolve
  {
    float found[@N@], view[@DIFFERENCES@];
    /* What is no number stays none, with -ffast-math too. */
    int broken = -1;
    for (i = 0; i < @WIDTH@; i++)
      if (!NAME_all_finite(z + i, 1))
        broken = i;
    for (i = 0; i < @WIDTH@ - @CHANNELS@; i++)
      view[i] = z[i + @CHANNELS@] - z[i];
    (void)view;
@CALLS@
    if (broken >= 0)
      found[0] = z[broken];
    for (i = 0; i < @N@; i++)
      z[i] = found[i];
  }

/// stencil
  {
    /* About the feature itself: differences of neighbours are exact. */
    float found[@WIDTH@];
    int j;
    for (i = 0; i < @WIDTH@; i++) {
      const int start = i < @HALF@ ? 0
        : i >= @WIDTH@ - @HALF@ ? @WIDTH@ - @WINDOW@ : i - @HALF@;
      const int row = i < @HALF@ ? i
        : i >= @WIDTH@ - @HALF@ ? i - @WIDTH@ + 2 * @HALF@ + 1 : @HALF@;
      float sum = @SUMS@[row] * z[i];
      for (j = 0; j < @WINDOW@; j++)
        sum += @WEIGHTS@[row * @WINDOW@ + j] * (z[start + j] - z[i]);
      found[i] = sum;
    }
    for (i = 0; i < @WIDTH@; i++)
      z[i] = found[i];
  }

/// scatter
  {
    /* About the first value, lest an offset take the digits. */
    const float first = z[0];
    float mean = 0, spread = 0, top = 0;
    for (i = 0; i < @WIDTH@; i++) {
      top = fabsf(z[i]) > top ? fabsf(z[i]) : top;
      mean += (z[i] - first) / @WIDTH@;
    }
    for (i = 0; i < @WIDTH@; i++)
      z[i] = (z[i] - first) - mean;
    for (i = 0; i < @WIDTH@; i++)
      spread += z[i] * z[i] / @WIDTH@;
    spread = sqrtf(spread);
    for (i = 0; i < @WIDTH@; i++)
      z[i] = spread <= @FLAT@ * top ? z[i] * 0 : z[i] / spread;
  }

/// scatter_reference
  {
    const float first = z[0];
    float mean = 0, gain = 0;
    for (i = 0; i < @WIDTH@; i++)
      mean += (z[i] - first) / @WIDTH@;
    for (i = 0; i < @WIDTH@; i++)
      z[i] = (z[i] - first) - mean;
    gain = NAME_dot(z, @REFERENCE@, @WIDTH@);
    gain = fabsf(gain) < @NO_GAIN@ ? 1 : gain;
    for (i = 0; i < @WIDTH@; i++)
      z[i] = @MEAN@ + z[i] / gain;
  }

/// project
  {
    float mapped[@N@];
    int j;
    for (j = 0; j < @N@; j++)
      mapped[j] = NAME_dot(z, @MATRIX@ + j * @WIDTH@, @WIDTH@);
    for (j = 0; j < @N@; j++)
      z[j] = mapped[j];
  }

/// nearest
/* Margins of all classes; returns the class of the largest, or -1: see NAME_predict. */
static inline int NAME_margins(const float *x, float *margins, float *least)
{
  float z[@WIDEST@], r[@WIDTH@], near[@N_CLASSES@], second = HUGE_VALF;
  int c, i, j, k, best = 0;
  (void)k;
  NAME_prepare(x, z);@SUBTRACT@
  for (c = 0; c < @N_CLASSES@; c++)
    near[c] = HUGE_VALF;
  for (j = 0; j < @REFERENCES@; j++) {
    float squared;
    for (i = 0; i < @WIDTH@; i++)
      r[i] = z[i] - @POINTS@[j * @WIDTH@ + i];@PROJECT@
    squared = NAME_dot(r, r, @WIDTH@);
    if (squared < near[@CODES@[j]])
      near[@CODES@[j]] = squared;
  }
  if (!NAME_all_finite(z, @WIDTH@) || !NAME_all_finite(near, @N_CLASSES@))
    return NAME_refuse(margins, least);@MARGINS@
  *least = margins[best];
  return best;
}

/// nearest_project
    for (k = 0; k < @FRAME@; k++) {
      const float *t = @TANGENTS@ + (j * @FRAME@ + k) * @WIDTH@;
      const float along = NAME_dot(t, r, @WIDTH@);
      for (i = 0; i < @WIDTH@; i++)
        r[i] -= along * t[i];
    }

/// nearest8
/* Margins of all classes, and the least that the winner's can have been before the
   tables were rounded; returns the class of the largest, or -1: see NAME_predict. */
static inline int NAME_margins(const float *x, float *margins, float *least)
{
  float z[@WIDEST@], delta[@WIDTH@], r[@WIDTH@], second = HUGE_VALF;
  float near[@N_CLASSES@], lows[@N_CLASSES@], highs[@N_CLASSES@];
  float low = HUGE_VALF, high, whole;
  int c, i, j, k, best = 0;
  (void)k;
  NAME_prepare(x, z);@SUBTRACT@
  for (c = 0; c < @N_CLASSES@; c++)
    near[c] = lows[c] = highs[c] = HUGE_VALF;
  for (j = 0; j < @REFERENCES@; j++) {
    const float *bound = @BOUNDS@ + 3 * j;
    const float scale = @POINT_SCALES@[j];
    float squared, moved = 0, error, under;
    for (i = 0; i < @WIDTH@; i++)
      r[i] = delta[i] = z[i] - scale * (float)@POINTS@[j * @WIDTH@ + i];@PROJECT@
    squared = NAME_dot(r, r, @WIDTH@);
    c = @CODES@[j];
    if (squared < near[c])
      near[c] = squared;
    whole = sqrtf(NAME_dot(delta, delta, @WIDTH@));
    under = squared - bound[2] * bound[2] * moved;
    under = under > 0 ? sqrtf(under) : 0;
    moved = sqrtf(moved);
    error = bound[0] + @ROUNDING@ * whole + bound[1] * moved;
    if (sqrtf(squared) + error < highs[c])
      highs[c] = sqrtf(squared) + error;
    under -= error + bound[1] * bound[1] * whole;
    if (under < lows[c])
      lows[c] = under > 0 ? under : 0;
  }
  if (!NAME_all_finite(z, @WIDTH@) || !NAME_all_finite(near, @N_CLASSES@))
    return NAME_refuse(margins, least);@MARGINS@
  for (c = 0; c < @N_CLASSES@; c++)
    if (c != best && lows[c] < low)
      low = lows[c];
  high = highs[best];
  whole = low * low + high * high;
  *least = whole == 0 ? 0 : (low * low - high * high) / whole;
  return best;
}

/// nearest8_project
    for (k = 0; k < @FRAME@; k++) {
      const int8_t *t = @TANGENTS@ + (j * @FRAME@ + k) * @WIDTH@;
      const float unit = @TANGENT_SCALES@[j * @FRAME@ + k];
      const float along = unit * NAME_dot8(t, delta, @WIDTH@);
      const float step = unit * along;
      moved += along * along;
      for (i = 0; i < @WIDTH@; i++)
        r[i] -= step * (float)t[i];
    }

/// nearest_margins
  for (c = 1; c < @N_CLASSES@; c++)
    if (near[c] < near[best])
      best = c;
  for (c = 0; c < @N_CLASSES@; c++)
    if (c != best && near[c] < second)
      second = near[c];
  for (c = 0; c < @N_CLASSES@; c++) {
    const float other = c == best ? second : near[best], total = other + near[c];
    margins[c] = total == 0 ? 0 : (other - near[c]) / total;
  }

/// planes
/* Margins of all classes, and the least that the winner's can have been before the
   tables were rounded; returns the class of the largest, or -1: see NAME_predict. */
static inline int NAME_margins(const float *x, float *margins, float *least)
{
  float z[@WIDEST@], value[@PLANES@], wrong[@PLANES@];
  int c, i, j, best = 0;
  float length;
  NAME_prepare(x, z);
  length = sqrtf(NAME_dot(z, z, @WIDTH@));
  (void)length;
  (void)i;
  for (j = 0; j < @PLANES@; j++) {
    value[j] = @PRODUCT@ + @OFFSETS@[j];
    wrong[j] = 0;@FILL@
  }
  if (!NAME_all_finite(z, @WIDTH@) || !NAME_all_finite(value, @PLANES@))
    return NAME_refuse(margins, least);
@MEAN@@RULE@
}

/// planes_mean
  {
    /* Mean probabilities of several regressions, as log-odds again. No larger than the
       largest of their logarithms, errors are doubled by the sum that they share. */
    float mean[@K@], of_one[@P@][@K@], doubt = 0;
    for (j = 0; j < @PLANES@; j++)
      doubt = wrong[j] > doubt ? wrong[j] : doubt;
    for (i = 0; i < @P@; i++) {
      float top, sum = 0;
      for (c = 0; c < @K@; c++)
        of_one[i][c] = c < @ROWS@ ? value[i * @ROWS@ + c] : 0;
      top = of_one[i][0];
      for (c = 1; c < @K@; c++)
        top = of_one[i][c] > top ? of_one[i][c] : top;
      for (c = 0; c < @K@; c++)
        sum += expf(of_one[i][c] - top);
      for (c = 0; c < @K@; c++)
        of_one[i][c] += @SHARES@[i] - top - logf(sum);
    }
    for (c = 0; c < @K@; c++) {
      float top = of_one[0][c], sum = 0;
      for (i = 1; i < @P@; i++)
        top = of_one[i][c] > top ? of_one[i][c] : top;
      for (i = 0; i < @P@; i++)
        sum += expf(of_one[i][c] - top);
      mean[c] = top + logf(sum);
    }
    for (j = 0; j < @ROWS@; j++) {
      value[j] = @ROWS@ < @K@ ? mean[j] - mean[j + 1] : mean[j];
      wrong[j] = 2 * doubt;
    }
  }

/// planes_zero
    /* What is rounding is zero, as in Python. */
    if (NAME_all_finite(&length, 1)
        && fabsf(value[j]) <= @REACH@[2 * j] * length + @REACH@[2 * j + 1])
      value[j] = 0;

/// planes_two
  margins[0] = value[0];
  margins[1] = -value[0];
  best = margins[1] > margins[0];
  c = best;
  *least = margins[c] - wrong[0];
  return best;

/// planes_votes
  {
    /* In double, where what is clear by millions still differs by its size. */
    double votes[@K@], clear[@K@];
    float sure = HUGE_VALF;
    int most[@K@], fewest[@K@], doubtful = 0;
    for (c = 0; c < @K@; c++) {
      votes[c] = clear[c] = 0;
      most[c] = fewest[c] = 0;
    }
    for (i = 0, j = 0; i < @K@; i++)
      for (c = i + 1; c < @K@; c++, j++) {
        const int winner = value[j] > 0 ? i : c, loser = value[j] > 0 ? c : i;
        const int doubt = wrong[j] > 0 && !(fabsf(value[j]) > wrong[j]);
        votes[winner] += 1;
        most[winner] += 1;
        most[loser] += doubt;
        fewest[winner] += !doubt;
        clear[i] += (double)value[j] / @UNIT@;
        clear[c] -= (double)value[j] / @UNIT@;
      }
    for (c = 0; c < @K@; c++) {
      votes[c] += clear[c] / (3 * ((clear[c] < 0 ? -clear[c] : clear[c]) + 1));
      if (votes[c] > votes[best])
        best = c;
    }
    for (c = 0; c < @K@; c++) {
      float won = HUGE_VALF, lost = HUGE_VALF, direct = 0;
      for (i = 0; i < @K@; i++) {
        const int low = c < i ? c : i, high = c < i ? i : c;
        float own;
        if (i == c)
          continue;
        j = low * (2 * @K@ - low - 1) / 2 + high - low - 1;
        own = c < i ? value[j] : -value[j];
        if (fabsf(own) < won)
          won = fabsf(own);
        if (own <= 0 && -own < lost)
          lost = -own;
        if (i == best)
          direct = own;
        if (c == best && fabsf(own) - wrong[j] < sure)
          sure = fabsf(own) - wrong[j];
      }
      margins[c] = c == best ? won : direct <= 0 ? direct : -lost;
      doubtful |= wrong[0] > 0 && c != best && most[c] >= fewest[best];
    }
    /* Where a class beats the answer, duels of others may change it too: until one has
       as many votes; one that has them needs one more, or to be as clear. */
    for (c = 0; c < @K@ && fewest[best] < @K@ - 1; c++) {
      const int equal = (int)(votes[c] + .5) == (int)(votes[best] + .5);
      float behind[@K@], left[@K@], need = HUGE_VALF;
      if (c == best)
        continue;
      if (equal)
        need = (float)((clear[best] - clear[c]) * @UNIT@ / (2 * @K@ - 2));
      for (i = 0; i < @K@; i++) {
        const int low = c < i ? c : i, high = c < i ? i : c;
        j = low * (2 * @K@ - low - 1) / 2 + high - low - 1;
        behind[i] = left[i] = HUGE_VALF;
        if (i != c) {
          behind[i] = c < i ? -value[j] : value[j];
          left[i] = behind[i] - wrong[j];
        }
      }
      for (i = 0; i < @K@; i++) {
        int more = 0, surely = 0;
        for (j = 0; j < @K@; j++) {
          more += behind[j] <= behind[i];
          surely += left[j] <= left[i];
        }
        if (more >= (int)(votes[best] + .5) + equal && behind[i] < need)
          need = behind[i];
        if (surely >= fewest[best] + equal && left[i] < sure)
          sure = left[i];
      }
      if (need < margins[best])
        margins[best] = need;
      if (equal && need < sure)
        sure = need;
    }
    for (c = 0; c < @K@; c++)
      if (c != best && votes[c] == votes[best])
        margins[c] = margins[best] = 0;
    *least = doubtful ? -1 : sure;
    return best;
  }

/// planes_ddag
  {
    float closest[@K@], kept[@K@], sure = HUGE_VALF;
    int first = 0, last = @K@ - 1;
    (void)j;
    for (c = 0; c < @K@; c++)
      closest[c] = kept[c] = HUGE_VALF;
    while (first < last) {
      const int at = first * (2 * @K@ - first - 1) / 2 + last - first - 1;
      const float size = fabsf(value[at]), left = size - wrong[at];
      const int wins = value[at] > 0, winner = wins ? first : last;
      if (size < closest[winner])
        closest[winner] = size;
      if (left < kept[winner])
        kept[winner] = left;
      if (left < sure)
        sure = left;
      margins[wins ? last : first] = -size;
      last -= wins;
      first += !wins;
    }
    best = first;
    margins[best] = closest[best];
    /* A duel in doubt on the way may have ended otherwise. */
    *least = sure < 0 ? sure : kept[best];
    return best;
  }

/// planes_scores
  {
    float top = value[0], size = 0;
    for (c = 0; c < @K@; c++) {
      top = value[c] > top ? value[c] : top;
      size = fabsf(value[c]) > size ? fabsf(value[c]) : size;
    }
    /* The first of those that differ by rounding. */
    for (c = @K@ - 1; c >= 0; c--)
      if (top - value[c] <= @TIE@ * size) {
        value[c] = top;
        best = c;
      }
    margins[best] = *least = HUGE_VALF;
    for (c = 0; c < @K@; c++) {
      const int low = c < best ? c : best, high = c < best ? best : c;
      float border, gap, sure;
      if (c == best)
        continue;
      border = @BORDERS@[low * (2 * @K@ - low - 1) / 2 + high - low - 1];
      gap = (value[best] - value[c]) / border;
      sure = gap - (wrong[best] + wrong[c]) / border;
      margins[c] = -gap;
      if (gap < margins[best])
        margins[best] = gap;
      if (sure < *least)
        *least = sure;
    }
    return best;
  }

/// predict
/* The answer and how sure it is; -1 if that is not enough. Of x with NaN or infinity, or
   too far away for numbers in float32, the answer is -1 and the margin is NaN. */
static inline int NAME_predict(const float *x, float *margin)
{
  float margins[UPPER_CLASSES], least;
  const int best = NAME_margins(x, margins, &least);
  *margin = margins[best < 0 ? 0 : best];
  if (best < 0)
    return UPPER_REFUSED;
@REFUSE@  return best;
}

/// check
#include <stdio.h>
#include "model.h"

int main(void)
{
  float x[UPPER_FEATURES], margins[UPPER_CLASSES], margin, least;
  while (fread(x, sizeof(float), UPPER_FEATURES, stdin) == UPPER_FEATURES) {
    const int answer = NAME_predict(x, &margin);
    const int best = NAME_margins(x, margins, &least);
    if (best < 0 ? answer >= 0 : margins[best] != margin)
      return 1;
    if (fwrite(&answer, sizeof answer, 1, stdout) != 1
        || fwrite(&best, sizeof best, 1, stdout) != 1
        || fwrite(&least, sizeof least, 1, stdout) != 1
        || fwrite(margins, sizeof margins, 1, stdout) != 1)
      return 2;
  }
  return 0;
}

/// object
#include "model.h"
int answer(const float *x, float *margin);
int answer(const float *x, float *margin) { return NAME_predict(x, margin); }
