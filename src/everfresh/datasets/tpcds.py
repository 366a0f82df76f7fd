"""TPC-DS: the tables that the queries of the thesis's Table A.1 read, and their data.

The data come from DuckDB's extension `tpcds`, which is built for one version of DuckDB: it runs in an
environment of its own (`make .venvs/tpc`), in a process that reaches no network. Generated data are kept per
scale factor in the user's cache folder.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from everfresh.datasets.cache import generated, plain
from everfresh.errors import Code, EverfreshError

TABLES: dict[str, str] = {
    "date_dim": """CREATE TABLE date_dim (
    d_date_sk BIGINT NOT NULL,
    d_date_id VARCHAR,
    d_date DATE,
    d_month_seq BIGINT,
    d_week_seq BIGINT,
    d_quarter_seq BIGINT,
    d_year BIGINT,
    d_dow BIGINT,
    d_moy BIGINT,
    d_dom BIGINT,
    d_qoy BIGINT,
    d_fy_year BIGINT,
    d_fy_quarter_seq BIGINT,
    d_fy_week_seq BIGINT,
    d_day_name VARCHAR,
    d_quarter_name VARCHAR,
    d_holiday VARCHAR,
    d_weekend VARCHAR,
    d_following_holiday VARCHAR,
    d_first_dom BIGINT,
    d_last_dom BIGINT,
    d_same_day_ly BIGINT,
    d_same_day_lq BIGINT,
    d_current_day VARCHAR,
    d_current_week VARCHAR,
    d_current_month VARCHAR,
    d_current_quarter VARCHAR,
    d_current_year VARCHAR,
    PRIMARY KEY (d_date_sk)
)""",
    "item": """CREATE TABLE item (
    i_item_sk BIGINT NOT NULL,
    i_item_id VARCHAR,
    i_rec_start_date DATE,
    i_rec_end_date DATE,
    i_item_desc VARCHAR,
    i_current_price DECIMAL(7,2),
    i_wholesale_cost DECIMAL(7,2),
    i_brand_id BIGINT,
    i_brand VARCHAR,
    i_class_id BIGINT,
    i_class VARCHAR,
    i_category_id BIGINT,
    i_category VARCHAR,
    i_manufact_id BIGINT,
    i_manufact VARCHAR,
    i_size VARCHAR,
    i_formulation VARCHAR,
    i_color VARCHAR,
    i_units VARCHAR,
    i_container VARCHAR,
    i_manager_id BIGINT,
    i_product_name VARCHAR,
    PRIMARY KEY (i_item_sk)
)""",
    "promotion": """CREATE TABLE promotion (
    p_promo_sk BIGINT NOT NULL,
    p_promo_id VARCHAR,
    p_start_date_sk BIGINT,
    p_end_date_sk BIGINT,
    p_item_sk BIGINT,
    p_cost DECIMAL(15,2),
    p_response_target BIGINT,
    p_promo_name VARCHAR,
    p_channel_dmail VARCHAR,
    p_channel_email VARCHAR,
    p_channel_catalog VARCHAR,
    p_channel_tv VARCHAR,
    p_channel_radio VARCHAR,
    p_channel_press VARCHAR,
    p_channel_event VARCHAR,
    p_channel_demo VARCHAR,
    p_channel_details VARCHAR,
    p_purpose VARCHAR,
    p_discount_active VARCHAR,
    PRIMARY KEY (p_promo_sk)
)""",
    "store": """CREATE TABLE store (
    s_store_sk BIGINT NOT NULL,
    s_store_id VARCHAR,
    s_rec_start_date DATE,
    s_rec_end_date DATE,
    s_closed_date_sk BIGINT,
    s_store_name VARCHAR,
    s_number_employees BIGINT,
    s_floor_space BIGINT,
    s_hours VARCHAR,
    s_manager VARCHAR,
    s_market_id BIGINT,
    s_geography_class VARCHAR,
    s_market_desc VARCHAR,
    s_market_manager VARCHAR,
    s_division_id BIGINT,
    s_division_name VARCHAR,
    s_company_id BIGINT,
    s_company_name VARCHAR,
    s_street_number VARCHAR,
    s_street_name VARCHAR,
    s_street_type VARCHAR,
    s_suite_number VARCHAR,
    s_city VARCHAR,
    s_county VARCHAR,
    s_state VARCHAR,
    s_zip VARCHAR,
    s_country VARCHAR,
    s_gmt_offset DECIMAL(5,2),
    s_tax_percentage DECIMAL(5,2),
    PRIMARY KEY (s_store_sk)
)""",
    "household_demographics": """CREATE TABLE household_demographics (
    hd_demo_sk BIGINT NOT NULL,
    hd_income_band_sk BIGINT,
    hd_buy_potential VARCHAR,
    hd_dep_count BIGINT,
    hd_vehicle_count INTEGER,
    PRIMARY KEY (hd_demo_sk)
)""",
    "customer_demographics": """CREATE TABLE customer_demographics (
    cd_demo_sk BIGINT NOT NULL,
    cd_gender VARCHAR,
    cd_marital_status VARCHAR,
    cd_education_status VARCHAR,
    cd_purchase_estimate BIGINT,
    cd_credit_rating VARCHAR,
    cd_dep_count BIGINT,
    cd_dep_employed_count BIGINT,
    cd_dep_college_count INTEGER,
    PRIMARY KEY (cd_demo_sk)
)""",
    "customer_address": """CREATE TABLE customer_address (
    ca_address_sk BIGINT NOT NULL,
    ca_address_id VARCHAR,
    ca_street_number VARCHAR,
    ca_street_name VARCHAR,
    ca_street_type VARCHAR,
    ca_suite_number VARCHAR,
    ca_city VARCHAR,
    ca_county VARCHAR,
    ca_state VARCHAR,
    ca_zip VARCHAR,
    ca_country VARCHAR,
    ca_gmt_offset DECIMAL(5,2),
    ca_location_type VARCHAR,
    PRIMARY KEY (ca_address_sk)
)""",
    "customer": """CREATE TABLE customer (
    c_customer_sk BIGINT NOT NULL,
    c_customer_id VARCHAR,
    c_current_cdemo_sk BIGINT,
    c_current_hdemo_sk BIGINT,
    c_current_addr_sk BIGINT,
    c_first_shipto_date_sk BIGINT,
    c_first_sales_date_sk BIGINT,
    c_salutation VARCHAR,
    c_first_name VARCHAR,
    c_last_name VARCHAR,
    c_preferred_cust_flag VARCHAR,
    c_birth_day BIGINT,
    c_birth_month BIGINT,
    c_birth_year BIGINT,
    c_birth_country VARCHAR,
    c_login VARCHAR,
    c_email_address VARCHAR,
    c_last_review_date_sk INTEGER,
    PRIMARY KEY (c_customer_sk)
)""",
    "store_sales": """CREATE TABLE store_sales (
    ss_sold_date_sk BIGINT,
    ss_sold_time_sk BIGINT,
    ss_item_sk BIGINT NOT NULL,
    ss_customer_sk BIGINT,
    ss_cdemo_sk BIGINT,
    ss_hdemo_sk BIGINT,
    ss_addr_sk BIGINT,
    ss_store_sk BIGINT,
    ss_promo_sk BIGINT,
    ss_ticket_number BIGINT NOT NULL,
    ss_quantity BIGINT,
    ss_wholesale_cost DECIMAL(7,2),
    ss_list_price DECIMAL(7,2),
    ss_sales_price DECIMAL(7,2),
    ss_ext_discount_amt DECIMAL(7,2),
    ss_ext_sales_price DECIMAL(7,2),
    ss_ext_wholesale_cost DECIMAL(7,2),
    ss_ext_list_price DECIMAL(7,2),
    ss_ext_tax DECIMAL(7,2),
    ss_coupon_amt DECIMAL(7,2),
    ss_net_paid DECIMAL(7,2),
    ss_net_paid_inc_tax DECIMAL(7,2),
    ss_net_profit DECIMAL(7,2),
    PRIMARY KEY (ss_item_sk, ss_ticket_number)
)""",
}
"""The CREATE TABLE statement of each table: types as in the extension, keys as in the specification."""

ENVIRONMENT = Path(__file__).parents[3] / ".venvs" / "tpc" / "bin" / "python"
"""The Python of the environment with the extension, in a checkout."""

_SCRIPT = """
import sys, pathlib, duckdb, duckdb_extension_tpcds
sf, folder, *tables = sys.argv[1:]
home = pathlib.Path(duckdb_extension_tpcds.__file__).parent
(extension,) = home.glob(f"extensions/v{duckdb.__version__}/tpcds.duckdb_extension")
con = duckdb.connect()
con.execute("SET threads = 1")
con.execute(f"LOAD '{extension}'")
con.execute(f"CALL dsdgen(sf = {sf})")
for table in tables:
    con.execute(f"COPY {table} TO '{folder}/{table}.parquet'")
"""


def generate(
    sf: float, folder: Path | str | None = None, python: Path | str = ENVIRONMENT
) -> dict[str, Path]:
    """The Parquet file of each table at scale factor `sf`, generated by `python` unless they are in `folder`
    already."""

    def make(fresh: Path) -> None:
        if not Path(python).exists():
            raise EverfreshError(
                Code.ENVIRONMENT,
                "the TPC-DS generator is not installed",
                place=str(python),
                hint="make .venvs/tpc",
            )
        done = subprocess.run(
            [str(python), "-c", _SCRIPT, f"{sf:g}", str(fresh), *TABLES],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise EverfreshError(
                Code.ENVIRONMENT,
                f"the TPC-DS generator failed: {done.stderr.strip() or 'no output'}",
                hint="make .venvs/tpc",
            )

    return generated("tpcds", sf, TABLES, folder, make)


def read(
    sf: float, tables: Sequence[str] = tuple(TABLES), folder: Path | str | None = None
) -> dict[str, pa.Table]:
    """The tables at scale factor `sf` in memory, with the types of `TABLES`."""
    files = generate(sf, folder)
    return {table: plain(pq.read_table(files[table])) for table in TABLES if table in tables}
